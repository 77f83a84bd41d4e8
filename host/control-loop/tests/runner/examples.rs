//! The example stub does what its comments say.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use podloom_control_loop::{CallOutcome, HandleKind, Measurement, recorder_fn};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::secs;

#[expect(dead_code, reason = "its main function, which a test does not call")]
#[path = "../../examples/stub.rs"]
mod stub;

#[tokio::test(start_paused = true)]
async fn the_stub_handles_good_fruit_and_retries_the_rest() {
    let mut control_loop = stub::eat();
    let measured: Arc<Mutex<Vec<Measurement>>> = Arc::default();
    let log = Arc::clone(&measured);
    control_loop.recorder = Arc::new(recorder_fn(move |_, one| {
        log.lock().expect("held briefly").push(one);
    }));
    let stop = CancellationToken::new();
    let running = tokio::spawn(control_loop.run(stop.clone()));
    sleep(secs(60)).await;
    stop.cancel();
    let report = running.await.expect("it does not panic");
    assert!(report.abandoned.is_empty(), "{report:?}");

    let measured = measured.lock().expect("held briefly");
    let handled: BTreeSet<(&str, &str)> = measured
        .iter()
        .filter_map(|one| match one {
            Measurement::HandleDuration(_, kind, outcome) => {
                Some((kind.as_str(), outcome.as_str()))
            }
            _ => None,
        })
        .collect();
    let expected = [
        (HandleKind::Add, CallOutcome::Success),
        (HandleKind::Add, CallOutcome::Failure),
        (HandleKind::Delete, CallOutcome::Success),
    ];
    let expected = expected.map(|(kind, outcome)| (kind.as_str(), outcome.as_str()));
    assert_eq!(handled, BTreeSet::from(expected));
    let unread =
        |one: &&Measurement| matches!(one, Measurement::GetDuration(_, CallOutcome::Failure));
    assert!(measured.iter().any(|one| unread(&one)));
    let most = measured.iter().filter_map(|one| match one {
        Measurement::InFlight(ids) => Some(*ids),
        _ => None,
    });
    assert_eq!(most.max(), Some(3));
}
