//! How the process ends when a duty does.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::until_stopped;
use crate::refusal::Failure;

/// A duty that goes on until it is stopped, and one that ends as it is told.
async fn beside_one_that_goes_on(
    ends: impl Future<Output = Result<()>> + Send + 'static,
) -> Result<()> {
    let stopped = CancellationToken::new();
    let mut duties = JoinSet::new();
    let stop = stopped.clone();
    duties.spawn(async move {
        stop.cancelled().await;
        ("goes-on", Ok(()))
    });
    duties.spawn(async move { ("ends", ends.await) });
    let done = timeout(Duration::from_secs(60), until_stopped(duties, &stopped));
    done.await.expect("it waits for nobody")
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_ends_or_breaks_ends_the_process_with_code_3() {
    let ended = beside_one_that_goes_on(async { Ok(()) }).await;
    let failed = beside_one_that_goes_on(async { Err(anyhow!("no idea")) }).await;
    let broke = beside_one_that_goes_on(async { panic!("a bug") }).await;
    for (result, told) in [
        (ended, "ends ended though nobody stopped it"),
        (failed, "ends ended: no idea"),
        (broke, "a task broke"),
    ] {
        let failure = Failure::from(result.expect_err(told));
        assert_eq!(failure.code(), 3);
        let Failure::Broken(error) = failure else {
            panic!("{failure}");
        };
        assert!(format!("{error:#}").contains(told), "{error:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_duties_may_end_once_a_stop_was_asked_for() {
    let stopped = CancellationToken::new();
    let mut duties = JoinSet::new();
    for pause in [1, 2] {
        let stop = stopped.clone();
        duties.spawn(async move {
            stop.cancelled().await;
            sleep(Duration::from_secs(pause)).await;
            ("one", Ok(()))
        });
    }
    stopped.cancel();
    until_stopped(duties, &stopped).await.expect("it ends well");
}
