use super::super::*;

fn room() -> Room {
    Room::new(3, 2)
}

fn id(namespace: &str, name: &str) -> CleanerId {
    CleanerId {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("{namespace}-{name}").into(),
    }
}

/// An attempt of a namespace ends. Returns who is woken, of whom all are known.
fn leave(room: &mut Room, of: &CleanerId) -> Option<CleanerId> {
    room.leave(&of.namespace, |_| true)
}

#[test]
fn a_namespace_leaves_room_for_others() {
    let mut room = room();
    let [a, b, c] = ["a", "b", "c"].map(|name| id("demo", name));
    let [d, e] = ["d", "e"].map(|name| id("other", name));
    assert!(room.enter(&a));
    assert!(room.enter(&b));
    assert!(!room.enter(&c), "two of its namespace run");
    assert!(room.enter(&d));
    assert!(!room.enter(&e), "three run in all");
    assert_eq!(leave(&mut room, &d), Some(e), "c has no room still");
    assert_eq!(leave(&mut room, &a), Some(c));
    assert_eq!(leave(&mut room, &b), None, "nobody waits any more");
}

#[test]
fn the_first_one_that_waits_is_woken_first_and_once() {
    let mut room = room();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| id("demo", name));
    assert!(room.enter(&a));
    assert!(room.enter(&b));
    assert!(!room.enter(&c));
    assert!(!room.enter(&d));
    assert!(!room.enter(&c));
    assert_eq!(leave(&mut room, &a), Some(c.clone()));
    assert!(room.enter(&c));
    assert_eq!(leave(&mut room, &b), Some(d));
    assert_eq!(leave(&mut room, &c), None);
}

#[test]
fn one_that_began_does_not_wait_any_more() {
    let mut room = room();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| id("demo", name));
    assert!(room.enter(&a));
    assert!(room.enter(&b));
    assert!(!room.enter(&c));
    assert!(!room.enter(&d));
    assert_eq!(leave(&mut room, &a), Some(c));
    assert!(room.enter(&d), "it comes first, before it is woken");
    assert_eq!(leave(&mut room, &b), None);
}

#[test]
fn a_cleaner_that_is_gone_leaves_nothing() {
    let mut room = room();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| id("demo", name));
    assert!(room.enter(&a));
    assert!(room.enter(&b));
    assert!(!room.enter(&c));
    assert!(!room.enter(&d));
    let woken = room.leave(&a.namespace, |id| *id != c);
    assert_eq!(woken, Some(d), "c is gone");
    assert_eq!(leave(&mut room, &b), None);
    assert!(room.running.is_empty() && room.waiting.is_empty());
}
