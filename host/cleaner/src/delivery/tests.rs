//! Deliveries to sinks on loopback.

mod attempt;
mod board;

use std::sync::Mutex;
use std::time::Duration;

use podloom_engine::outbound::{OutboundMetrics, SystemResolver};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fixtures::{Does, TestSink, answers};
use super::*;

/// A running delivery, and who was woken.
struct Running {
    delivery: Delivery,
    woken: Arc<Woken>,
    metrics: DeliveryMetrics,
    work: JoinHandle<()>,
}

#[derive(Default)]
struct Woken {
    ids: Mutex<Vec<CleanerId>>,
    bell: Notify,
}

impl Running {
    fn start() -> Self {
        let settings = SinkSettings {
            allows_loopback: true,
            resolver: Arc::new(SystemResolver::default()),
            outbound: OutboundMetrics::register(&mut Registry::default()),
        };
        let woken = Arc::<Woken>::default();
        let bells = Arc::clone(&woken);
        let wake: Wake = Arc::new(move |id| {
            bells.ids.lock().unwrap().push(id.clone());
            bells.bell.notify_one();
        });
        let metrics = DeliveryMetrics::default();
        let (delivery, work) = Delivery::start(&settings, Clock::new(), metrics.clone(), wake);
        Self {
            delivery,
            woken,
            metrics,
            work: tokio::spawn(work),
        }
    }

    /// Waits until so many were woken, and returns them.
    async fn woken(&self, count: usize) -> Vec<CleanerId> {
        let waiting = async {
            loop {
                let ids = self.woken.ids.lock().unwrap().clone();
                if ids.len() >= count {
                    return ids;
                }
                self.woken.bell.notified().await;
            }
        };
        timeout(Duration::from_secs(20), waiting).await.unwrap()
    }

    /// Makes an attempt and returns what came of it.
    async fn attempt(&self, attempt: &Attempt) -> Attempt {
        let before = self.woken.ids.lock().unwrap().len();
        let id = id(0);
        let begun = self.delivery.send(&id, attempt, event());
        assert!(begun.is_some());
        self.woken(before + 1).await;
        self.delivery.attempt(&id.uid).unwrap()
    }

    fn counted(&self, outcome: &str) -> u64 {
        let mut registry = Registry::default();
        registry.register("it", "It", self.metrics.clone());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = format!("it_total{{outcome=\"{outcome}\"}} ");
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
    let running = Running::start();
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
    let running = Running::start();
    let first = running.delivery.send(&id(0), &shot(&sink, 1, 0), event());
    for _ in 0..5 {
        let again = running.delivery.send(&id(0), &shot(&sink, 1, 0), event());
        assert_eq!(again, first);
    }
    running.woken(1).await;
    assert_eq!(sink.heard().len(), 1);
}

/// Sinks that hang fill all the room, and who finds none is woken when there is some again.
#[tokio::test]
async fn who_finds_no_room_is_woken() {
    let sink = TestSink::start(Does::Hangs).await;
    let running = Running::start();
    let all = usize::from(ATTEMPTS);
    for number in 0..all {
        let begun = running
            .delivery
            .send(&id(number), &shot(&sink, 1, 0), event());
        assert!(begun.is_some(), "{number}");
    }
    let late = id(all);
    let begun = running.delivery.send(&late, &shot(&sink, 1, 0), event());
    assert_eq!(begun, None);
    assert_eq!(running.delivery.attempt(&late.uid), None);
    let woken = running.woken(2).await;
    assert!(woken.contains(&late), "{woken:?}");
    let begun = running.delivery.send(&late, &shot(&sink, 1, 0), event());
    assert!(begun.is_some());
}

#[tokio::test]
async fn what_comes_of_a_cleaner_that_is_gone_is_not_kept() {
    let sink = TestSink::start(answers(200, &[])).await;
    let running = Running::start();
    let begun = running.delivery.send(&id(0), &shot(&sink, 1, 0), event());
    assert!(begun.is_some());
    running.delivery.forget("own-0");
    let last = running.delivery.send(&id(1), &shot(&sink, 1, 0), event());
    assert!(last.is_some());
    running.woken(1).await;
    assert_eq!(running.delivery.attempt("own-0"), None);
}

#[tokio::test]
async fn the_work_ends_with_the_delivery() {
    let settings = SinkSettings {
        allows_loopback: false,
        resolver: Arc::new(SystemResolver::default()),
        outbound: OutboundMetrics::register(&mut Registry::default()),
    };
    let wake: Wake = Arc::new(|_| {});
    let metrics = DeliveryMetrics::default();
    let (delivery, work) = Delivery::start(&settings, Clock::new(), metrics, wake);
    drop(delivery);
    timeout(Duration::from_secs(1), work).await.unwrap();
}
