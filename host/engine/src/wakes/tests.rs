use futures::{FutureExt, StreamExt};

use super::{Noted, Wakes};

fn names(noted: &Noted) -> Vec<&str> {
    noted.some.iter().map(|(_, name)| name.as_str()).collect()
}

#[tokio::test]
async fn what_is_noted_twice_is_taken_once() {
    let wakes = Wakes::default();
    let mut taken = std::pin::pin!(wakes.taken());
    wakes.wake("team", "b");
    wakes.wake("team", "a");
    wakes.wake("team", "b");
    assert_eq!(names(&taken.next().await.unwrap()), ["a", "b"]);
    assert!(taken.next().now_or_never().is_none());
    wakes.wake("team", "b");
    assert_eq!(names(&taken.next().await.unwrap()), ["b"]);
}

#[tokio::test]
async fn a_wake_up_between_two_takes_is_not_lost() {
    let wakes = Wakes::default();
    let mut taken = std::pin::pin!(wakes.taken());
    assert!(taken.next().now_or_never().is_none());
    wakes.wake_in(None);
    assert!(taken.next().await.unwrap().all);
}

/// There are never more notes than objects and namespaces.
#[test]
fn a_namespace_that_is_noted_often_is_taken_once() {
    let wakes = Wakes::default();
    for _ in 0..1000 {
        wakes.wake_in(Some("b"));
        wakes.wake_in(Some("a"));
    }
    let noted = wakes.take();
    assert_eq!(noted.namespaces.len(), 2);
    assert!(!noted.all && noted.some.is_empty());
    assert_eq!(wakes.take(), Noted::default());
}

/// While somebody looks at what was taken before, too.
#[test]
fn nothing_is_missed() {
    let wakes = Wakes::default();
    let mut taken = std::pin::pin!(wakes.taken());
    let mut next = || taken.next().now_or_never().flatten();
    wakes.wake_in(Some("a"));
    let looked_at = next();
    wakes.wake_in(Some("a"));
    assert_eq!(next(), looked_at);
    assert!(looked_at.is_some());
    assert_eq!(next(), None);
}
