use std::time::Duration;

use kube::core::ObjectMeta;
use podloom_turns::lock;

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
fn events_of_our_own_writes_wake_nobody() {
    let recent = Recent::default();
    assert!(!recent.is_idle(&object("a", "9")));
    recent.wrote(&object("a", "10"));
    recent.wrote(&object("a", "12"));
    assert!(recent.is_idle(&object("a", "10")));
    // Somebody else wrote between our writes, and after them.
    assert!(!recent.is_idle(&object("a", "11")));
    assert!(!recent.is_idle(&object("a", "13")));
    assert!(!recent.is_idle(&object("a", "opaque")));
    assert!(recent.is_idle(&object("a", "12")));
    assert!(!recent.is_idle(&object("b", "12")));
    // The cache has it, but a pass may have begun with an older object.
    assert_eq!(recent.compare(&object("a", "11")), Cached::Behind);
    assert_eq!(recent.compare(&object("a", "12")), Cached::Current);
}

#[test]
fn an_event_that_a_pass_needs_wakes_its_object() {
    let recent = Recent::default();
    recent.wrote(&object("a", "10"));
    assert_eq!(recent.compare(&object("a", "9")), Cached::Behind);
    assert!(!recent.is_idle(&object("a", "10")));
    recent.wrote(&object("b", "10"));
    recent.needs_event(&object("b", "10"));
    assert!(!recent.is_idle(&object("b", "10")));
}

/// Whether events with these versions need another pass, if they come while one writes version 10, and then 12.
fn needed(shown: &[&str], needs_event: bool) -> bool {
    let recent = Recent::default();
    recent.begin(&object("a", "9"));
    let (before, after) = shown.split_at(shown.len() / 2);
    // They may come before the answers, and after them.
    let come = |versions: &[&str]| {
        for version in versions {
            assert!(recent.is_idle(&object("a", version)), "the end decides");
        }
    };
    come(before);
    recent.wrote(&object("a", "10"));
    recent.wrote(&object("a", "12"));
    if needs_event {
        recent.needs_event(&object("a", "12"));
    }
    come(after);
    recent.end(&object("a", "9"))
}

#[test]
fn the_end_of_a_pass_decides_about_the_events_that_came_meanwhile() {
    for ours in [&[][..], &["10"], &["10", "12"], &["12", "10"]] {
        assert!(!needed(ours, false), "{ours:?}");
    }
    for others in [&["11"][..], &["10", "11"], &["12", "13"], &["opaque"]] {
        assert!(needed(others, false), "{others:?}");
    }
    assert!(needed(&["10", "12"], true));
    assert!(!needed(&["10"], true), "its event is still to come");
}

#[test]
fn after_a_pass_that_wrote_nothing_every_event_counts() {
    let recent = Recent::default();
    recent.begin(&object("a", "9"));
    assert!(recent.is_idle(&object("a", "10")));
    assert!(recent.end(&object("a", "9")));
    assert!(!recent.is_idle(&object("a", "11")));
    assert!(!recent.end(&object("a", "9")), "no pass runs");
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
    assert_eq!(lock(&recent.0).of.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_cache_still_shows_of_an_object_that_we_have_ended_is_old() {
    let recent = Recent::default();
    recent.ended(&object("a", "10"));
    assert_eq!(recent.compare(&object("a", "10")), Cached::Behind);
    // Another one of its name.
    assert_eq!(recent.compare(&object("b", "11")), Cached::Current);
    tokio::time::advance(Duration::from_mins(3)).await;
    recent.wrote(&object("c", "12"));
    assert_eq!(
        lock(&recent.0).of.len(),
        1,
        "only the new one is remembered"
    );
}
