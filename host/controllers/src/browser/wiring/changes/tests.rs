use futures::{FutureExt, StreamExt};

use super::{Place, changes};

#[test]
fn what_changes_twice_is_looked_at_once() {
    let (mut noted, stream) = changes();
    let mut stream = std::pin::pin!(stream);
    let place = |name: &str| Place::Namespace(name.to_owned());
    for _ in 0..1000 {
        noted.note(place("b"));
        noted.note(place("a"));
    }
    let mut taken = || stream.next().now_or_never().flatten();
    assert_eq!(taken(), Some(place("a")));
    assert_eq!(taken(), Some(place("b")));
    assert_eq!(taken(), None);
}

/// While somebody looks at what changed before, too.
#[test]
fn no_change_is_missed() {
    let (mut noted, stream) = changes();
    let mut stream = std::pin::pin!(stream);
    let place = |name: &str| Place::Namespace(name.to_owned());
    noted.note(place("a"));
    noted.note(place("b"));
    assert_eq!(stream.next().now_or_never(), Some(Some(place("a"))));
    noted.note(place("a"));
    assert_eq!(stream.next().now_or_never(), Some(Some(place("b"))));
    assert_eq!(stream.next().now_or_never(), Some(Some(place("a"))));
}
