use std::sync::Arc;

use kube::core::ObjectMeta;

use super::Memory;
use crate::pod::SeenPod;

fn browser(uid: &str, version: &str) -> ObjectMeta {
    ObjectMeta {
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_owned()),
        ..ObjectMeta::default()
    }
}

#[test]
fn a_cache_is_behind_until_it_shows_our_write() {
    let memory = Memory::default();
    assert!(!memory.is_ahead_of(&browser("a", "9")));
    memory.wrote(&browser("a", "10"));
    assert!(memory.is_ahead_of(&browser("a", "9")));
    assert!(!memory.is_ahead_of(&browser("a", "10")));
    assert!(!memory.is_ahead_of(&browser("a", "11")));
    // Another object, though perhaps of the same name.
    assert!(!memory.is_ahead_of(&browser("b", "9")));
}

#[test]
fn a_created_pod_is_known_until_the_cache_shows_it() {
    let memory = Memory::default();
    let seen = browser("a", "10");
    memory.created(&seen, Arc::new(SeenPod::default()));
    assert!(memory.created_pod(&seen).is_some());
    memory.pod_is_cached(&seen);
    assert!(memory.created_pod(&seen).is_none());
}

#[test]
fn what_is_forgotten_is_not_known() {
    let memory = Memory::default();
    let seen = browser("a", "10");
    memory.wrote(&seen);
    memory.forget(&seen);
    assert!(!memory.is_ahead_of(&browser("a", "1")));
}

#[test]
fn a_version_that_is_no_number_is_never_waited_for() {
    let memory = Memory::default();
    memory.wrote(&browser("a", "opaque"));
    assert!(!memory.is_ahead_of(&browser("a", "older")));
}
