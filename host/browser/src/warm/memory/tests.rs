//! What the memory keeps, and for how long; and what the search through all histories needs of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::DefaultHasher;

use podloom_model::process::Hashed;

use super::*;

impl WarmMemory {
    /// Returns a copy that changes independently.
    pub(crate) fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(lock(&self.0).clone())))
    }

    /// Makes this the recipe of a pool.
    pub(crate) fn has_recipe(&self, pool: PoolId, recipe: Recipe) {
        let recipe = ((None, None), Instant::now(), Ok(Arc::new(recipe)));
        lock(&self.0).pools.entry(pool).or_default().recipe = Some(recipe);
    }

    /// Hashes what is known of sessions and their pods.
    pub(crate) fn hash(&self, hasher: &mut DefaultHasher) {
        let known = lock(&self.0);
        let reserved = known.reserved.iter();
        let mut reserved: Vec<_> = reserved.map(|(uid, it)| (uid, &it.version)).collect();
        reserved.sort_unstable();
        let owned: BTreeMap<_, _> = known.owned.iter().collect();
        let attempts: BTreeMap<_, _> = known.attempts.iter().collect();
        let _ = write!(Hashed(hasher), "{reserved:?}{owned:?}{attempts:?}");
    }
}

fn id(uid: &str) -> PoolId {
    PoolId {
        config: "browsers".to_owned(),
        uid: uid.to_owned(),
        browser: "chrome".to_owned(),
        version: "139.0".to_owned(),
    }
}

fn recipe() -> Arc<Recipe> {
    Arc::new(Recipe::of(serde_json::json!({ "spec": {} }), None))
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_reserved_until_it_changes_and_for_half_a_minute() {
    let memory = WarmMemory::default();
    assert!(memory.reserve("p", "1"));
    assert!(!memory.reserve("p", "1"));
    assert!(memory.reserve("p", "2"));
    memory.release("p");
    assert!(memory.reserve("p", "2"));
    tokio::time::advance(RESERVED).await;
    assert!(memory.reserve("p", "2"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_held_is_nobody_elses_in_any_version() {
    let memory = WarmMemory::default();
    assert!(memory.hold("c", "p", "1"));
    assert!(!memory.reserve("p", "1") && !memory.hold("c", "p", "2"));
    memory.let_go("p", "2");
    assert!(!memory.hold("c", "p", "2") && memory.hold("c", "p", "3"));
    tokio::time::advance(RESERVED).await;
    assert!(memory.reserve("p", "3"));
}

#[tokio::test(start_paused = true)]
async fn sessions_that_take_pods_are_known_for_a_moment() {
    let (memory, within) = (WarmMemory::default(), Duration::from_millis(250));
    memory.reserve("other", "1");
    assert!(!memory.is_taking("c", within));
    memory.hold("c", "p", "1");
    assert!(memory.is_taking("c", within) && !memory.is_taking("d", within));
    memory.let_go("p", "1");
    assert!(!memory.is_taking("c", within));
    memory.hold("c", "q", "1");
    tokio::time::advance(within).await;
    assert!(!memory.is_taking("c", within));
}

/// A pod of an owner, by its kind.
fn owned(name: &str, uid: &str, owner: &str) -> SeenPod {
    let kind = if owner == "c" {
        "BrowserConfig"
    } else {
        "Browser"
    };
    serde_json::from_value(serde_json::json!({ "metadata": {
        "name": name, "namespace": "team", "uid": uid,
        "ownerReferences": [{ "apiVersion": "selenosis.io/v1", "kind": kind, "name": owner, "uid": owner, "controller": true }],
    } }))
    .unwrap()
}

#[test]
fn pods_are_found_by_their_owner_whatever_their_names() {
    let memory = WarmMemory::default();
    let of = |owner| memory.owned_by(Some("team"), owner);
    let shown = |before, after| lock(&memory.0).shown(before, after);
    let waits = owned("warm", "1", "c");
    shown(None, Some(&waits));
    assert_eq!(of("c"), ["warm"]);
    // One of the Browser's own name is found by that.
    let named = owned("b", "2", "b");
    shown(None, Some(&named));
    assert!(of("b").is_empty());
    let taken = owned("warm", "1", "b");
    shown(Some(&waits), Some(&taken));
    assert!(of("c").is_empty());
    assert_eq!(of("b"), ["warm"]);
    assert!(memory.owned_by(Some("other"), "b").is_empty());
    // Another pod of that name is there, when the end of the first is shown.
    let next = owned("warm", "3", "b");
    shown(Some(&taken), Some(&next));
    shown(Some(&taken), None);
    assert_eq!(of("b"), ["warm"]);
    shown(Some(&next), None);
    assert!(lock(&memory.0).owned.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_recipe_holds_for_a_while_and_a_failure_does_not_replace_it() {
    let (memory, id) = (WarmMemory::default(), id("c"));
    let of = |generation| (Some(generation), Some("chain".to_owned()));
    let failed = || Err("plugin labels failed".to_owned());
    memory.knows(&id, of(1), failed());
    assert!(
        memory
            .recent_recipe(&id, &of(1))
            .is_some_and(|it| it.is_err())
    );
    assert!(memory.recipe(&id).is_none());
    tokio::time::advance(NO_RECIPE).await;
    assert!(memory.recent_recipe(&id, &of(1)).is_none());
    memory.knows(&id, of(1), Ok(recipe()));
    assert!(memory.recent_recipe(&id, &of(2)).is_none());
    tokio::time::advance(RECIPE).await;
    assert!(memory.recent_recipe(&id, &of(1)).is_none());
    // Of the same BrowserConfig and chain, the old one goes on.
    memory.knows(&id, of(1), failed());
    assert!(memory.recipe(&id).is_some());
    memory.knows(&id, of(2), failed());
    assert!(memory.recipe(&id).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_a_process_knows_of_a_config_goes_with_it() {
    let (memory, now) = (WarmMemory::default(), Timestamp::UNIX_EPOCH);
    for uid in ["c-1", "c-2"] {
        memory.began(&id(uid), now);
        memory.has_written(uid, now);
        memory.has_applied(uid, "policy".to_owned());
    }
    memory.keep_only("c-1", &[]);
    assert_eq!(memory.demand(&id("c-1"), now), 0);
    assert_eq!(memory.demand(&id("c-2"), now), 1);
    assert_eq!(memory.written("c-1"), None);
    assert!(!memory.was_applied("c-1", "policy"));
    assert!(memory.was_applied("c-2", "policy") && !memory.was_applied("c-2", "other"));
    assert!(memory.is_unknowing());
    tokio::time::advance(UNKNOWING).await;
    assert!(!memory.is_unknowing() && !memory.was_applied("c-2", "policy"));
}
