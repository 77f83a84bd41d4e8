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

fn take(permits: &PassPermits, name: &str) -> Option<PassPermit> {
    permits.take(&object("team", name))
}

/// The names that were woken since the last time.
fn woken(wakes: &mut UnboundedReceiver<Id>) -> Vec<String> {
    std::iter::from_fn(|| wakes.try_recv().ok())
        .map(|(_, name)| name)
        .collect()
}

#[test]
fn a_namespace_leaves_places_to_the_others() {
    let (permits, mut wakes) = PassPermits::new(2, 2);
    let (a, _b) = (take(&permits, "a").unwrap(), take(&permits, "b").unwrap());
    assert!(take(&permits, "c").is_none());
    assert!(permits.take(&object("other", "c")).is_some());
    assert!(woken(&mut wakes).is_empty());
    drop(a);
    assert_eq!(woken(&mut wakes), ["c"]);
    assert!(take(&permits, "c").is_some());
}

#[test]
fn those_set_aside_are_woken_once_and_in_their_order() {
    let (permits, mut wakes) = PassPermits::new(1, 1);
    let a = take(&permits, "a").unwrap();
    for name in ["b", "c", "b", "d"] {
        assert!(take(&permits, name).is_none());
    }
    drop(a);
    assert_eq!(woken(&mut wakes), ["b"]);
    // Its own event wakes it, too: it is no longer among those set aside.
    let c = take(&permits, "c").unwrap();
    drop(c);
    assert_eq!(woken(&mut wakes), ["d"]);
}

/// One that was deleted meanwhile makes no pass, so no permit would be given back for the next.
#[test]
fn one_that_is_gone_leaves_its_turn_to_the_next() {
    let (permits, mut wakes) = PassPermits::new(1, 1);
    let a = take(&permits, "a").unwrap();
    assert!(take(&permits, "gone").is_none());
    assert!(take(&permits, "b").is_none());
    drop(a);
    assert_eq!(woken(&mut wakes), ["gone"]);
    permits.passed_by("team");
    assert_eq!(woken(&mut wakes), ["b"]);
    permits.passed_by("team");
    assert!(
        permits.lock().is_empty(),
        "nothing is kept of a namespace at rest"
    );
}

/// They are no tenants of each other.
#[test]
fn objects_without_a_namespace_have_all_places() {
    let (permits, mut wakes) = PassPermits::new(1, 2);
    let first = permits.take(&object("", "a")).unwrap();
    let _second = permits.take(&object("", "b")).unwrap();
    assert!(permits.take(&object("", "c")).is_none());
    drop(first);
    assert_eq!(woken(&mut wakes), ["c"]);
}
