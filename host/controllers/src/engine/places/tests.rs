use futures::channel::mpsc::UnboundedReceiver;
use kube::core::ObjectMeta;

use super::{Id, Place, Places};

fn object(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn take(places: &Places, name: &str) -> Option<Place> {
    places.take(&object("team", name))
}

/// The names that were woken since the last time.
fn woken(wakes: &mut UnboundedReceiver<Id>) -> Vec<String> {
    std::iter::from_fn(|| wakes.try_recv().ok())
        .map(|(_, name)| name)
        .collect()
}

#[test]
fn a_namespace_leaves_places_to_the_others() {
    let (places, mut wakes) = Places::new(2, 2);
    let (a, _b) = (take(&places, "a").unwrap(), take(&places, "b").unwrap());
    assert!(take(&places, "c").is_none());
    assert!(places.take(&object("other", "c")).is_some());
    assert!(woken(&mut wakes).is_empty());
    drop(a);
    assert_eq!(woken(&mut wakes), ["c"]);
    assert!(take(&places, "c").is_some());
}

#[test]
fn those_set_aside_are_woken_once_and_in_their_order() {
    let (places, mut wakes) = Places::new(1, 1);
    let a = take(&places, "a").unwrap();
    for name in ["b", "c", "b", "d"] {
        assert!(take(&places, name).is_none());
    }
    drop(a);
    assert_eq!(woken(&mut wakes), ["b"]);
    // Its own event wakes it, too: it is no longer among those set aside.
    let c = take(&places, "c").unwrap();
    drop(c);
    assert_eq!(woken(&mut wakes), ["d"]);
}

/// One that was deleted meanwhile makes no pass, so no place would be given back for the next.
#[test]
fn one_that_is_gone_leaves_its_turn_to_the_next() {
    let (places, mut wakes) = Places::new(1, 1);
    let a = take(&places, "a").unwrap();
    assert!(take(&places, "gone").is_none());
    assert!(take(&places, "b").is_none());
    drop(a);
    assert_eq!(woken(&mut wakes), ["gone"]);
    places.passed_by("team");
    assert_eq!(woken(&mut wakes), ["b"]);
    places.passed_by("team");
    assert!(
        places.lock().is_empty(),
        "nothing is kept of a namespace at rest"
    );
}

/// They are no tenants of each other.
#[test]
fn objects_without_a_namespace_have_all_places() {
    let (places, mut wakes) = Places::new(1, 2);
    let first = places.take(&object("", "a")).unwrap();
    let _second = places.take(&object("", "b")).unwrap();
    assert!(places.take(&object("", "c")).is_none());
    drop(first);
    assert_eq!(woken(&mut wakes), ["c"]);
}
