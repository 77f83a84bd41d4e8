//! Deliveries to sinks on loopback.

mod attempt;
mod room;

use std::collections::BTreeSet;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use podloom_engine::outbound::SystemResolver;
use podloom_engine::wakes::Noted;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fixtures::{Does, TestSink, answers};
use super::*;
use crate::fixtures::{alarms, metrics, sinks};
use crate::memory::Memory;

/// A running delivery, and who was woken.
struct Running {
    delivery: Delivery,
    memory: Memory,
    woken: Pin<Box<dyn Stream<Item = Noted> + Send>>,
    registry: Registry,
    work: JoinHandle<()>,
}

impl Running {
    fn start() -> Self {
        let memory = Memory::default();
        let (alarms, wakes) = alarms(&memory);
        let woken = wakes.taken().boxed();
        let mut registry = Registry::default();
        let metrics = metrics(&mut registry);
        let client = sinks(true, SystemResolver::default());
        let (delivery, work) = Delivery::start(client, alarms, Clock::new(), metrics);
        Self {
            delivery,
            memory,
            woken,
            registry,
            work: tokio::spawn(work),
        }
    }

    /// Waits until these Cleaners were woken.
    async fn woken(&mut self, ids: impl IntoIterator<Item = CleanerId>) {
        let mut missing: BTreeSet<String> = ids.into_iter().map(|id| id.name.to_string()).collect();
        let waiting = async {
            while !missing.is_empty() {
                let noted = self.woken.next().await.unwrap();
                for (_, name) in noted.some {
                    missing.remove(&name);
                }
            }
        };
        timeout(Duration::from_secs(20), waiting).await.unwrap();
    }

    /// Begins an attempt. Returns it, or that it is postponed.
    fn send(&self, id: &CleanerId, attempt: &Attempt) -> Attempt {
        self.memory.know(&id.uid);
        self.delivery.send(id, attempt, event())
    }

    /// Makes an attempt and returns what came of it.
    async fn attempt(&mut self, attempt: &Attempt) -> Attempt {
        let id = id(0);
        assert_eq!(self.send(&id, attempt).state, AttemptState::Running);
        self.woken([id.clone()]).await;
        self.last(&id).unwrap()
    }

    /// The last attempt of a Cleaner.
    fn last(&self, id: &CleanerId) -> Option<Attempt> {
        self.memory.recall(&id.uid, None).attempt
    }

    fn counted(&self, outcome: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let line = format!("cleaner_event_deliveries_total{{outcome=\"{outcome}\"}} ");
        let value = text.lines().find_map(|text| text.strip_prefix(&line));
        value.unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.work.abort();
    }
}

fn id(number: usize) -> CleanerId {
    // Eight run in a namespace, so four of them fill all room.
    CleanerId {
        namespace: format!("demo-{}", number / 8).into(),
        name: format!("shop-{number}").into(),
        uid: format!("own-{number}").into(),
    }
}

fn event() -> CloudEvent {
    CloudEvent {
        headers: http::HeaderMap::new(),
        body: "{}".into(),
    }
}

fn shot(sink: &TestSink, number: i32, failures: u32) -> Attempt {
    Attempt {
        number,
        sink: sink.url(),
        failures,
        state: AttemptState::Running,
    }
}

fn lasting(pause: &Range<Timestamp>) -> Duration {
    Duration::try_from(pause.end.duration_since(pause.start)).unwrap()
}

#[tokio::test]
async fn a_failure_has_a_pause_and_then_the_event_is_accepted() {
    let sink = TestSink::start(answers(503, &[])).await;
    let mut running = Running::start();
    for (number, seconds) in [(1, 1), (2, 2), (3, 4)] {
        let failures = u32::try_from(number).unwrap();
        let attempt = running.attempt(&shot(&sink, number, failures - 1)).await;
        assert_eq!((attempt.number, attempt.failures), (number, failures));
        let AttemptState::Failed(message, pause) = attempt.state else {
            panic!("{:?}", attempt.state);
        };
        assert_eq!(message, "the sink answered with HTTP 503");
        let (paused, wait) = (lasting(&pause), Duration::from_secs(seconds));
        assert!(paused >= wait && paused <= wait.mul_f32(1.1), "{pause:?}");
    }
    sink.now(answers(204, &[]));
    let attempt = running.attempt(&shot(&sink, 4, 3)).await;
    assert_eq!(attempt.state, AttemptState::Accepted);
    let heard = sink.heard();
    assert_eq!(heard.len(), 4);
    assert!(
        heard.iter().all(|request| *request == heard[0]),
        "the same each time"
    );
    assert_eq!(running.counted("failed"), 3);
    assert_eq!(running.counted("delivered"), 1);
    assert_eq!(running.counted("given_up"), 0);
}

#[tokio::test]
async fn a_sink_is_left_alone_for_as_long_as_it_wants() {
    let sink = TestSink::start(answers(429, &["retry-after: 30"])).await;
    let attempt = Running::start().attempt(&shot(&sink, 1, 0)).await;
    let AttemptState::Failed(_, pause) = attempt.state else {
        panic!("{:?}", attempt.state);
    };
    assert!(lasting(&pause) >= Duration::from_secs(30), "{pause:?}");
}

/// A pass may come while an attempt runs, since anything may wake a Cleaner.
#[tokio::test]
async fn a_cleaner_has_one_attempt_at_a_time() {
    let sink = TestSink::start(Does::Hangs).await;
    let mut running = Running::start();
    let first = running.send(&id(0), &shot(&sink, 1, 0));
    assert_eq!(running.last(&id(0)), Some(first.clone()));
    for number in 2..7 {
        let again = running.send(&id(0), &shot(&sink, number, 0));
        assert_eq!(again, first);
    }
    running.woken([id(0)]).await;
    assert_eq!(sink.heard().len(), 1);
    let second = running.send(&id(0), &shot(&sink, 2, 0));
    assert_eq!(second, shot(&sink, 2, 0));
    assert_eq!(running.last(&id(0)), Some(second));
}

/// Sinks that hang fill all the room, and who finds none is woken when there is some again.
#[tokio::test]
async fn who_finds_no_room_is_woken() {
    let sink = TestSink::start(Does::Hangs).await;
    let mut running = Running::start();
    let all = usize::from(ATTEMPTS);
    for number in 0..all {
        let begun = running.send(&id(number), &shot(&sink, 1, 0));
        assert_eq!(begun.state, AttemptState::Running, "{number}");
    }
    let late = id(all);
    let postponed = running.send(&late, &shot(&sink, 1, 0));
    let AttemptState::Postponed(pause) = postponed.state else {
        panic!("{:?}", postponed.state);
    };
    let left = Duration::try_from(pause.end.duration_since(Timestamp::now())).unwrap();
    assert!(left > PATIENCE / 2 && left <= PATIENCE, "{left:?}");
    assert_eq!(running.last(&late), None, "the next pass tries again");
    running.woken([late.clone(), id(0)]).await;
    let begun = running.send(&late, &shot(&sink, 1, 0));
    assert_eq!(begun.state, AttemptState::Running);
}

#[tokio::test]
async fn what_comes_of_a_cleaner_that_is_gone_is_not_kept() {
    let sink = TestSink::start(answers(200, &[])).await;
    let mut running = Running::start();
    running.send(&id(0), &shot(&sink, 1, 0));
    running.memory.forget("own-0");
    running.send(&id(1), &shot(&sink, 1, 0));
    let mut woken = BTreeSet::new();
    while running.counted("delivered") < 2 || !woken.contains("shop-1") {
        let noted = timeout(Duration::from_secs(30), running.woken.next()).await;
        woken.extend(
            noted
                .unwrap()
                .unwrap()
                .some
                .into_iter()
                .map(|(_, name)| name),
        );
    }
    assert_eq!(woken.len(), 1, "{woken:?}");
    assert_eq!(running.last(&id(0)), None);
    assert!(!running.memory.knows("own-0"));
}

#[tokio::test]
async fn the_work_ends_with_the_delivery() {
    let (alarms, _) = alarms(&Memory::default());
    let client = sinks(false, SystemResolver::default());
    let metrics = metrics(&mut Registry::default());
    let (delivery, work) = Delivery::start(client, alarms, Clock::new(), metrics);
    drop(delivery);
    timeout(Duration::from_secs(1), work).await.unwrap();
}
