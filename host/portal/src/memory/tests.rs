use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::DefaultHasher;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use kube::core::ObjectMeta;
use podloom_api::names::portal::reason;
use podloom_model::process::Hashed;
use podloom_model::{tick_end, whole};
use podloom_turns::lock;

use super::{LONGEST, Memory, Repairs};
use crate::check::Blocker;
use crate::world::{Content, OurIdentity, Try};

const UID: &str = "e-1";

fn metadata(version: &str) -> ObjectMeta {
    ObjectMeta {
        uid: Some("d-1".to_owned()),
        resource_version: Some(version.to_owned()),
        ..ObjectMeta::default()
    }
}

fn deployment(version: &str) -> Arc<Deployment> {
    Arc::new(Deployment {
        metadata: metadata(version),
        ..Deployment::default()
    })
}

fn version(metadata: &ObjectMeta) -> &str {
    metadata.resource_version.as_deref().unwrap()
}

#[test]
fn our_own_write_counts_until_the_cache_shows_it() {
    let memory = Memory::default();
    memory.wrote_deployment(UID, deployment("10"));
    let newest = |cached| version(&memory.newest(UID, deployment(cached)).metadata).to_owned();
    assert_eq!(newest("9"), "10");
    assert_eq!(newest("10"), "10");
    // From here on the cache is the newest, whatever it says.
    assert_eq!(newest("9"), "9");
}

fn identity(version: &str, content: Option<Content>) -> OurIdentity {
    OurIdentity {
        metadata: Arc::new(metadata(version)),
        content,
    }
}

#[test]
fn the_content_of_a_secret_is_known_for_the_version_that_was_read() {
    let memory = Memory::default();
    let content = Content::Invalid("no".to_owned());
    memory.read_identity(UID, identity("10", Some(content.clone())));
    let known = |cached| memory.identity(UID, Arc::new(metadata(cached))).content;
    assert_eq!(known("10"), Some(content.clone()));
    assert_eq!(known("11"), None);
    // The watch is behind what was read.
    assert_eq!(known("9"), Some(content));
}

fn tunnel(input: &str) -> Try {
    Try::Tunnel {
        input: input.to_owned(),
        chain: None,
        namespace: None,
    }
}

/// How long to wait after each of these failures of the same try.
fn waits(problems: impl Iterator<Item = Blocker>) -> Vec<Duration> {
    let memory = Memory::default();
    let now = Timestamp::UNIX_EPOCH;
    let waits = problems.map(|problem| {
        let refusal = memory.refused(UID, &tunnel("a"), problem, now);
        Duration::try_from(refusal.next.duration_since(now)).unwrap()
    });
    waits.collect()
}

fn failed() -> impl Iterator<Item = Blocker> {
    std::iter::repeat_with(|| Blocker::of_children(reason::DEPLOYMENT_REJECTED, "invalid value"))
}

/// As in the first minute of a node selector that the API server does not accept.
#[test]
fn what_fails_is_tried_again_less_and_less_often() {
    let waits = waits(failed().take(30));
    let mut passed = Duration::ZERO;
    let first_minute = waits.iter().take_while(|wait| {
        passed += **wait;
        passed < Duration::from_mins(1)
    });
    assert!(first_minute.count() < 20);
    assert!(waits[0] <= Duration::from_millis(6), "{waits:?}");
    let longest = LONGEST + LONGEST / 10;
    assert!(waits.iter().all(|wait| *wait <= longest), "{waits:?}");
    assert!(waits[29] >= LONGEST);
}

#[test]
fn a_denial_waits_for_a_change() {
    let denied = std::iter::once(Blocker::of_mutators(reason::MUTATOR_DENIED, "no"));
    assert!(waits(denied)[0] >= LONGEST);
}

#[test]
fn nothing_helps_in_a_namespace_that_ends() {
    let message = "unable to create new content in namespace team because it is being terminated";
    let ended = std::iter::once(Blocker::of_children(reason::DEPLOYMENT_REJECTED, message));
    assert!(waits(ended)[0] >= Duration::from_secs(30));
}

#[test]
fn another_try_starts_with_the_shortest_wait() {
    let memory = Memory::default();
    let now = Timestamp::UNIX_EPOCH;
    let refused = |input: &str| {
        let problem = Blocker::of_mutators(reason::MUTATOR_FAILED, "trap");
        memory
            .refused(UID, &tunnel(input), problem, now)
            .next
            .duration_since(now)
    };
    for _ in 0..10 {
        refused("a");
    }
    assert!(refused("a") > SignedDuration::from_secs(1));
    let short = SignedDuration::from_millis(10);
    assert!(refused("b") < short);
    for _ in 0..10 {
        refused("b");
    }
    memory.succeeded(UID, &tunnel("b"));
    assert_eq!(memory.refusal(UID), None);
    assert!(refused("b") < short);
}

#[test]
fn what_waits_for_its_turn_is_forgotten_when_it_was_written() {
    let memory = Memory::default();
    memory.queued(UID, tunnel("a"));
    memory.succeeded(UID, &tunnel("b"));
    assert_eq!(memory.waits(UID), Some(tunnel("a")));
    memory.succeeded(UID, &tunnel("a"));
    assert_eq!(memory.waits(UID), None);
}

#[test]
fn nothing_is_left_of_what_is_gone() {
    let memory = Memory::default();
    memory.wrote_deployment(UID, deployment("10"));
    memory.forget(UID);
    assert_eq!(memory.len(), 0);
}

/// A look at something that nothing is known of takes no memory.
#[test]
fn looking_remembers_nothing() {
    let memory = Memory::default();
    assert_eq!(memory.refusal(UID), None);
    assert_eq!(memory.waits(UID), None);
    memory.newest(UID, deployment("9"));
    memory.identity(UID, Arc::new(metadata("9")));
    memory.succeeded(UID, &tunnel("a"));
    assert_eq!(memory.len(), 0);
}

#[test]
fn repairs_in_a_row_wait_longer_each_time() {
    let memory = Memory::default();
    let mut now = Timestamp::UNIX_EPOCH;
    let mut waits = Vec::new();
    for _ in 0..20 {
        memory.repaired(UID, now);
        let next = memory.next_repair(UID).unwrap();
        waits.push(next.duration_since(now));
        now = next;
    }
    assert!(waits[0] < SignedDuration::from_millis(10), "{waits:?}");
    assert!(waits[19] > SignedDuration::from_secs(200), "{waits:?}");
    assert!(waits[19] <= SignedDuration::from_secs(330), "{waits:?}");
    // After a quiet time, the next one is a first one.
    now += SignedDuration::from_mins(11);
    memory.repaired(UID, now);
    let wait = memory.next_repair(UID).unwrap().duration_since(now);
    assert!(wait < SignedDuration::from_millis(10), "{wait:?}");
}

#[test]
fn a_rollout_ends_when_all_pods_are_new_and_ready() {
    let memory = Memory::default();
    let now = Timestamp::UNIX_EPOCH;
    let seen = |generation: i64, ready: i32| -> Deployment {
        serde_json::from_value(serde_json::json!({
            "metadata": { "generation": generation },
            "spec": { "replicas": 1, "selector": {}, "template": {} },
            "status": {
                "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": ready,
            },
        }))
        .unwrap()
    };
    assert_eq!(memory.rolls_since(UID, &seen(1, 1)), None);
    memory.rolls(UID, Some(2), now);
    assert_eq!(
        memory.rolls_since(UID, &seen(1, 1)),
        Some(now),
        "not seen yet"
    );
    assert_eq!(
        memory.rolls_since(UID, &seen(2, 0)),
        Some(now),
        "not ready yet"
    );
    assert_eq!(memory.rolls_since(UID, &seen(2, 1)), None);
    assert_eq!(
        memory.rolls_since(UID, &seen(2, 0)),
        None,
        "a pod that dies later is no rollout"
    );
}

/// For the search through all histories.
impl Memory {
    /// Returns a copy that changes independently, in which equal waits are equal. How often something failed makes none longer than a tick.
    pub(crate) fn copied(&self) -> Self {
        let mut all = lock(&self.0).clone();
        for known in all.values_mut() {
            if let Some((refusal, count)) = &mut known.refused {
                (refusal.next, *count) = (tick_end(refusal.next), 0);
            }
            if let Some(repairs) = &mut known.repairs {
                let next = tick_end(repairs.next);
                *repairs = Repairs {
                    count: 0,
                    last: next,
                    next,
                };
            }
            if let Some(rollout) = &mut known.rollout {
                rollout.since = whole(rollout.since);
            }
        }
        Self(Arc::new(Mutex::new(all)))
    }

    /// Hashes what is known.
    pub(crate) fn hash(&self, hasher: &mut DefaultHasher) {
        let all = lock(&self.0);
        let sorted: BTreeMap<_, _> = all.iter().collect();
        let _ = write!(Hashed(hasher), "{sorted:?}");
    }
}
