use std::path::PathBuf;

use super::{cache_home, digest};

#[track_caller]
fn check(xdg: Option<&str>, home: Option<&str>, expected: Option<&str>) {
    let found = cache_home(xdg.map(Into::into), home.map(PathBuf::from));
    assert_eq!(found, expected.map(PathBuf::from));
}

#[test]
fn the_cache_is_where_the_user_wants_it() {
    check(Some("/cache"), Some("/home/me"), Some("/cache"));
    check(None, Some("/home/me"), Some("/home/me/.cache"));
    check(Some(""), Some("/home/me"), Some("/home/me/.cache"));
    check(Some("relative"), Some("/home/me"), Some("/home/me/.cache"));
    check(None, Some(""), None);
    check(None, None, None);
}

#[test]
fn other_texts_have_another_digest() {
    assert_eq!(digest(["a", "b"]), digest(["a", "b"]));
    assert_ne!(digest(["a", "b"]), digest(["a", "c"]));
    assert_ne!(digest(["a", "b"]), digest(["ab", ""]));
}
