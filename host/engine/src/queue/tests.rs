use kube::core::ObjectMeta;
use prometheus_client::metrics::gauge::Gauge;

use super::Queue;

fn object(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("team".to_owned()),
        ..ObjectMeta::default()
    }
}

#[test]
fn an_object_waits_once_until_its_turn() {
    let depth = Gauge::default();
    let queue = Queue::new(depth.clone());
    for _ in 0..10 {
        queue.woken(&object("a"));
        queue.woken(&object("b"));
    }
    assert_eq!(depth.get(), 2);
    queue.taken(Some("team"), "a");
    queue.taken(Some("team"), "a");
    assert_eq!(depth.get(), 1);
}

/// Another controller counts in the same gauge, and this one may come again.
#[test]
fn a_queue_that_ends_counts_nothing() {
    let depth = Gauge::default();
    let queue = Queue::new(depth.clone());
    queue.woken(&object("a"));
    drop(queue);
    assert_eq!(depth.get(), 0);
}
