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
    wakes.wake_all();
    assert!(taken.next().await.unwrap().all);
}
