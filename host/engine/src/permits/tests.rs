use futures::channel::mpsc::UnboundedReceiver;
use kube::core::ObjectMeta;

use super::{Id, PassPermit, PassPermits};

fn object(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn acquire(permits: &PassPermits, name: &str) -> Option<PassPermit> {
    permits.acquire(&object("team", name))
}

/// The names that were woken since the last time.
fn woken(wakes: &mut UnboundedReceiver<Id>) -> Vec<String> {
    std::iter::from_fn(|| wakes.try_recv().ok())
        .map(|(_, name)| name)
        .collect()
}

#[test]
fn a_namespace_leaves_permits_to_others() {
    let (permits, mut wakes) = PassPermits::new(2, 2);
    let (a, _b) = (
        acquire(&permits, "a").unwrap(),
        acquire(&permits, "b").unwrap(),
    );
    assert!(acquire(&permits, "c").is_none());
    assert!(permits.acquire(&object("other", "c")).is_some());
    assert!(woken(&mut wakes).is_empty());
    drop(a);
    assert_eq!(woken(&mut wakes), ["c"]);
    assert!(acquire(&permits, "c").is_some());
}

#[test]
fn parked_objects_are_woken_once_and_in_their_order() {
    let (permits, mut wakes) = PassPermits::new(1, 1);
    let a = acquire(&permits, "a").unwrap();
    for name in ["b", "c", "b", "d"] {
        assert!(acquire(&permits, name).is_none());
    }
    drop(a);
    assert_eq!(woken(&mut wakes), ["b"]);
    // Its own event woke it: it is not parked any more.
    let c = acquire(&permits, "c").unwrap();
    drop(c);
    assert_eq!(woken(&mut wakes), ["d"]);
}

/// A parked object that was deleted makes no pass, so it returns no permit.
#[test]
fn a_deleted_object_leaves_its_permit_to_the_next() {
    let (permits, mut wakes) = PassPermits::new(1, 1);
    let a = acquire(&permits, "a").unwrap();
    assert!(acquire(&permits, "gone").is_none());
    assert!(acquire(&permits, "b").is_none());
    drop(a);
    assert_eq!(woken(&mut wakes), ["gone"]);
    permits.passed_by("team");
    assert_eq!(woken(&mut wakes), ["b"]);
    permits.passed_by("team");
    assert!(permits.lock().is_empty(), "an idle namespace takes memory");
}

#[test]
fn cluster_scoped_objects_may_use_all_permits() {
    let (permits, mut wakes) = PassPermits::new(1, 2);
    let first = permits.acquire(&object("", "a")).unwrap();
    let _second = permits.acquire(&object("", "b")).unwrap();
    assert!(permits.acquire(&object("", "c")).is_none());
    drop(first);
    assert_eq!(woken(&mut wakes), ["c"]);
}
