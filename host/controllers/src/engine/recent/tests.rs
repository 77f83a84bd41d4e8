use std::time::Duration;

use kube::core::ObjectMeta;

use super::{Cached, Recent};

fn object(uid: &str, version: &str) -> ObjectMeta {
    ObjectMeta {
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_owned()),
        ..ObjectMeta::default()
    }
}

#[test]
fn a_cache_is_behind_until_it_shows_our_write() {
    let recent = Recent::default();
    assert_eq!(recent.compare(&object("a", "9")), Cached::Current);
    recent.wrote(&object("a", "10"));
    assert_eq!(recent.compare(&object("a", "9")), Cached::Behind);
    assert_eq!(recent.compare(&object("a", "10")), Cached::Current);
    assert_eq!(recent.compare(&object("a", "11")), Cached::Current);
    // Another object, though perhaps of the same name.
    assert_eq!(recent.compare(&object("b", "9")), Cached::Current);
}

#[test]
fn nothing_waits_for_a_forgotten_write() {
    let recent = Recent::default();
    recent.wrote(&object("a", "10"));
    recent.forget(&object("a", "10"));
    assert_eq!(recent.compare(&object("a", "1")), Cached::Current);
}

#[test]
fn nothing_waits_for_a_version_that_is_not_a_number() {
    let recent = Recent::default();
    recent.wrote(&object("a", "opaque"));
    assert_eq!(recent.compare(&object("a", "older")), Cached::Current);
}

/// The watch may be dead, so the object must be read from the API server.
#[tokio::test(start_paused = true)]
async fn a_cache_that_stays_behind_is_stale() {
    let recent = Recent::default();
    recent.wrote(&object("a", "10"));
    tokio::time::advance(Duration::from_secs(29)).await;
    assert_eq!(recent.compare(&object("a", "9")), Cached::Behind);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(recent.compare(&object("a", "9")), Cached::Stale);
    assert_eq!(recent.compare(&object("a", "10")), Cached::Current);
}

/// If somebody removes our finalizer, no pass sees the object go.
#[tokio::test(start_paused = true)]
async fn objects_that_vanish_are_forgotten() {
    let recent = Recent::default();
    recent.wrote(&object("a", "10"));
    tokio::time::advance(Duration::from_hours(2)).await;
    recent.wrote(&object("b", "11"));
    assert_eq!(recent.lock().of.len(), 1);
}
