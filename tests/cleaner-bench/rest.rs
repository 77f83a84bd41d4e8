//! Many Cleaners that only wait.

use std::time::Duration;

use podloom_tests::cleaner::map_target;
use podloom_tests::steps::{Counters, Step};
use serde_json::json;
use tokio::time::sleep;

use crate::place::Place;

/// One of so many is old enough, and waits for its condition.
const WATCHING: usize = 10;
/// How long to wait before measuring, so that what comes after the last status is over.
const PAUSE: Duration = Duration::from_secs(5);
/// The name of the step in which all wait.
const REST: &str = "rest";

/// Creates the Cleaners while there is no operator, and measures one from its start until all have their status, and then at rest.
pub(crate) async fn measure(place: &Place, count: usize, seconds: u64) -> Vec<Step> {
    eprintln!("creating {count} Cleaners, while there is no operator");
    for cleaners in place.namespaces() {
        cleaners.map("signal", json!({}), "wait").await;
    }
    place
        .each(count, async |cleaners, number| {
            let ttl = if number % WATCHING == 0 { "0" } else { "720h" };
            let spec = json!({
                "ttl": ttl,
                // Longer than the benchmark: each look publishes the next one, which is a write.
                "retry": { "period": "240h" },
                "targets": [map_target("signal", "signal")],
                "conditions": ["signal.data.state == 'go'"],
            });
            cleaners.create(&format!("resting{number}"), spec).await;
        })
        .await;
    let operator = place.operator().await;
    let requests = || place.requests();
    let counters = Counters {
        operator: &operator,
        requests: &requests,
    };
    let before = counters.now();
    let reasons = ["NotExpired", "WaitingForConditions"];
    place.until_counted(&operator, count, &reasons).await;
    let start = counters.since("start", &before);
    start.print(count, "Cleaner");
    sleep(PAUSE).await;
    eprintln!("measuring {seconds} s at rest");
    let before = counters.now();
    sleep(Duration::from_secs(seconds)).await;
    let rest = counters.since(REST, &before);
    rest.print(count, "Cleaner");
    vec![start, rest]
}

/// Checks that nothing is written while all wait.
pub(crate) fn check(steps: &[Step]) {
    for rest in steps.iter().filter(|step| step.name == REST) {
        let writes = rest.writes();
        assert!(writes.is_empty(), "at rest, the operator sent {writes:?}");
        eprintln!("         at rest, the operator wrote nothing");
    }
}
