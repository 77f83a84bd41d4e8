use futures::{FutureExt, StreamExt};

use super::super::Affected;
use super::super::changes;

#[test]
fn what_changes_twice_is_looked_at_once() {
    let (mut noted, stream) = changes();
    let mut stream = std::pin::pin!(stream);
    let affected = |name: &str| Affected::Namespace(name.to_owned());
    for _ in 0..1000 {
        noted.note(affected("b"));
        noted.note(affected("a"));
    }
    let mut taken = || stream.next().now_or_never().flatten();
    assert_eq!(taken(), Some(affected("a")));
    assert_eq!(taken(), Some(affected("b")));
    assert_eq!(taken(), None);
}

/// While somebody looks at what changed before, too.
#[test]
fn no_change_is_missed() {
    let (mut noted, stream) = changes();
    let mut stream = std::pin::pin!(stream);
    let affected = |name: &str| Affected::Namespace(name.to_owned());
    noted.note(affected("a"));
    noted.note(affected("b"));
    assert_eq!(stream.next().now_or_never(), Some(Some(affected("a"))));
    noted.note(affected("a"));
    assert_eq!(stream.next().now_or_never(), Some(Some(affected("b"))));
    assert_eq!(stream.next().now_or_never(), Some(Some(affected("a"))));
}
