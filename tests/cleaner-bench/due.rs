//! Many Cleaners that are due at one instant.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use podloom_tests::cleaner::map_target;
use podloom_tests::eventually_within;
use podloom_tests::steps::{Counters, Step};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::place::{PATIENCE, Place};

/// How many changes a second we make at least: so long before they are due, Cleaners learn of it.
const CHANGES_PER_SECOND: usize = 50;
/// Some time more than that.
const LEAD_SECONDS: usize = 10;

/// How long after the due instant the first deletion of each Cleaner reached the API server, in seconds, the shortest first.
pub(crate) struct Delays(Vec<f64>);

/// Creates the Cleaners, and measures from just before they are due until they are gone.
pub(crate) async fn measure(place: &Place, count: usize) -> (Step, Delays) {
    let operator = place.operator().await;
    let requests = || place.requests();
    let counters = Counters {
        operator: &operator,
        requests: &requests,
    };
    eprintln!("creating {count} Cleaners, each with a target of its own");
    place
        .each(count, async |cleaners, number| {
            let name = name(number);
            cleaners.map(&name, json!({}), "idle").await;
            let spec = json!({
                "ttl": "24h",
                "targets": [map_target("own", &name)],
                "conditions": ["own.data.state == 'idle'"],
            });
            cleaners.create(&name, spec).await;
        })
        .await;
    let due = set_due(place, count).await;
    until_published(place, count, due).await;
    let before = counters.now();
    let now = Timestamp::now();
    assert!(
        now < due,
        "it took too long to prepare; they are due already"
    );
    sleep(Duration::try_from(due.duration_since(now)).unwrap()).await;
    place.until_none().await;
    let step = counters.since("due", &before);
    step.print(count, "Cleaner");
    let writes: u64 = step.writes().values().sum();
    eprintln!(
        "         writes for each Cleaner: {:.2}",
        writes as f64 / count as f64
    );
    (step, Delays::of(place, due, count))
}

fn name(number: usize) -> String {
    format!("due{number}")
}

/// Makes all due at one instant, which is returned. Their times of creation differ, so their TTLs do.
async fn set_due(place: &Place, count: usize) -> Timestamp {
    let lead = i64::try_from(count / CHANGES_PER_SECOND + LEAD_SECONDS).unwrap();
    let due = Timestamp::now().as_second() + lead;
    place
        .each(count, async |cleaners, number| {
            let name = name(number);
            let cleaner = cleaners.api().get_metadata(&name).await.unwrap();
            let created = cleaner.metadata.creation_timestamp.unwrap().0;
            let ttl = due - created.as_second();
            cleaners
                .edit(&name, json!({ "ttl": format!("{ttl}s") }))
                .await;
        })
        .await;
    Timestamp::from_second(due).unwrap()
}

/// Waits until the status of all says when they are due.
async fn until_published(place: &Place, count: usize, due: Timestamp) {
    let due = due.to_string();
    eventually_within("all say when they are due", PATIENCE, async || {
        sleep(Duration::from_secs(1)).await;
        let cleaners = place.all().list(&ListParams::default()).await.unwrap();
        let says_it = cleaners.iter().filter(|cleaner| {
            let status = cleaner.status.as_ref();
            let next = status.and_then(|it| it.next_scheduled_evaluation.as_ref());
            next.is_some_and(|next| *next == due)
        });
        match says_it.count() {
            all if all == count => Ok(()),
            some => Err(format!("{some} say it")),
        }
    })
    .await;
}

impl Delays {
    /// From the API server's audit log.
    fn of(place: &Place, due: Timestamp, count: usize) -> Self {
        let mut first: BTreeMap<(String, String), SignedDuration> = BTreeMap::new();
        for request in place.audited() {
            if request.verb != "delete" || request.resource != "configmaps" {
                continue;
            }
            let received: Timestamp = request.received.parse().unwrap();
            let delay = received.duration_since(due);
            let known = first
                .entry((request.namespace, request.name))
                .or_insert(delay);
            *known = delay.min(*known);
        }
        assert_eq!(first.len(), count, "targets that were deleted");
        let mut delays: Vec<f64> = first.values().map(SignedDuration::as_secs_f64).collect();
        delays.sort_by(f64::total_cmp);
        assert!(delays[0] >= 0.0, "one was deleted too early: {delays:?}");
        Self(delays)
    }

    /// The delay that so many of a hundred do not exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let place = (self.0.len() * percent).div_ceil(100);
        self.0[place.saturating_sub(1)]
    }

    pub(crate) fn print(&self) {
        eprintln!(
            "         from the due instant to the first delete of each: first {:.2} s, p50 {:.2} s, p99 {:.2} s, last {:.2} s",
            self.0[0],
            self.percentile(50),
            self.percentile(99),
            self.percentile(100),
        );
    }

    pub(crate) fn figures(&self) -> Value {
        json!({
            "first": self.0[0],
            "p50": self.percentile(50),
            "p99": self.percentile(99),
            "last": self.percentile(100),
        })
    }
}
