//! What this process knows of warm pods beyond its caches.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::Resource as _;
use podloom_api::BrowserConfigObject;
use podloom_engine::cache::{Cache, Change, Seen};
use podloom_engine::readable::Readable;
use podloom_turns::lock;
use tokio::time::Instant;

use super::demand::Demand;
use super::pools::{LOOK, Pool};
use super::{PoolId, Recipe, uid, version};
use crate::pod::SeenPod;

/// A pod that a Browser tries to take, or that is being deleted, is nobody else's for this long. The cache shows the outcome before.
const RESERVED: Duration = Duration::from_secs(30);
/// A pod that was created and that the watch has not shown for this long is forgotten: it may be gone.
const CREATED: Duration = Duration::from_secs(30);

/// For how long a recipe is used, unless the BrowserConfig or the chain changes: so the pods of another BrowserConfig, and the labels of
/// the namespace, have their effect a little later. Whoever takes a pod compares it with what would be made now in any case.
const RECIPE: Duration = Duration::from_secs(30);
/// The same, if there is none: what was in the way may be gone when somebody looks again.
const NO_RECIPE: Duration = LOOK;
/// For how long the pods that there are count as demand, after the process began to look: it does not know what was before.
const UNKNOWING: Duration = Duration::from_mins(5);
/// For how long a NetworkPolicy that was applied is not applied again.
const APPLIED: Duration = Duration::from_mins(1);

/// What this process knows of warm pods beyond its caches.
#[derive(Clone, Default)]
pub(crate) struct WarmMemory(Arc<Mutex<Known>>);

#[derive(Clone, Default)]
struct Known {
    /// Pods that somebody is about to take or to delete, by UID.
    reserved: HashMap<String, Reservation>,
    /// The pods of each owner that do not have its name, as the watch shows them, by name with their UIDs: those of a BrowserConfig that
    /// wait, and the one that a Browser has taken. More than one only if a request came late.
    owned: HashMap<Owner, BTreeMap<String, String>>,
    /// The pod that a Browser tries to take or to create, by the Browser's UID: the answer may be lost.
    attempts: HashMap<String, String>,
    /// Pods that were created and that the watch has not shown yet, by UID.
    created: HashMap<String, (Arc<SeenPod>, Instant)>,
    pools: HashMap<PoolId, KnownPool>,
    /// When the number of pods was last written to the status of a BrowserConfig, by its UID.
    written: HashMap<String, Timestamp>,
    /// Which NetworkPolicy of pods that wait was applied last, and when, by the UID of the BrowserConfig.
    applied: HashMap<String, (String, Instant)>,
    /// When the process began to look.
    begun: Option<Instant>,
}

/// A namespace, and the UID of an object in it. Others can write that UID into pods of their own namespaces.
type Owner = (Option<String>, String);

/// A pod that is somebody's for a while.
#[derive(Clone, Debug)]
struct Reservation {
    /// In which version it was seen: what has changed is free again. None while somebody changes it step by step.
    version: Option<String>,
    /// The UID of the BrowserConfig, if a session is taking it.
    taken_from: Option<String>,
    since: Instant,
}

#[derive(Clone, Default)]
struct KnownPool {
    demand: Demand,
    /// The recipe, what it is made of, and since when it is known.
    recipe: Option<(MadeOf, Instant, Result<Arc<Recipe>, String>)>,
}

/// The generation of the BrowserConfig, and the digest of the chain.
type MadeOf = (Option<i64>, Option<String>);

impl WarmMemory {
    /// Follows what the watches show.
    pub(crate) fn listen(
        &self,
        configs: &Cache<Readable<BrowserConfigObject>>,
        pods: &Cache<SeenPod>,
    ) {
        let known = self.clone();
        configs.listen(move |seen| {
            if let Seen::Changed(Change {
                before: Some(config),
                after: None,
                ..
            }) = seen
            {
                known.keep_only(config.meta().uid.as_deref().unwrap_or_default(), &[]);
            }
        });
        let (known, cached) = (self.clone(), pods.clone());
        pods.listen(move |seen| match seen {
            Seen::Coming(pod) => {
                let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                let name = name.as_deref().unwrap_or_default();
                let before = cached.get(namespace.as_deref(), name);
                lock(&known.0).shown(before.as_deref(), Some(pod));
            }
            Seen::Changed(change) => lock(&known.0).shown(change.before, change.after),
            Seen::Listed(_) => {}
        });
    }

    /// Returns the names of the pods of an owner that do not have its name.
    pub(crate) fn owned_by(&self, namespace: Option<&str>, uid: &str) -> Vec<String> {
        let owner = (namespace.map(str::to_owned), uid.to_owned());
        let known = lock(&self.0);
        let pods = known.owned.get(&owner).into_iter().flatten();
        pods.map(|(name, _)| name.clone()).collect()
    }

    /// Notes the pod that a Browser tries to take or to create.
    pub(crate) fn attempts(&self, browser: &str, pod: &str) {
        let mut known = lock(&self.0);
        known.attempts.insert(browser.to_owned(), pod.to_owned());
    }

    /// Notes that a Browser has no pod for certain, or one that it knows.
    pub(crate) fn settled(&self, browser: &str) {
        lock(&self.0).attempts.remove(browser);
    }

    /// Returns the pod that a Browser may have, though the answer was lost.
    pub(crate) fn attempted(&self, browser: &str) -> Option<String> {
        lock(&self.0).attempts.get(browser).cloned()
    }

    /// Makes a pod, as it was seen, nobody else's for a while; false if it is somebody's.
    pub(crate) fn reserve(&self, uid: &str, version: &str) -> bool {
        let reservation = Reservation {
            version: Some(version.to_owned()),
            taken_from: None,
            since: Instant::now(),
        };
        self.reserve_as(uid, version, reservation)
    }

    /// Does the same for a session that takes it from a BrowserConfig, however the pod changes meanwhile.
    pub(crate) fn hold(&self, config: &str, uid: &str, version: &str) -> bool {
        let reservation = Reservation {
            version: None,
            taken_from: Some(config.to_owned()),
            since: Instant::now(),
        };
        self.reserve_as(uid, version, reservation)
    }

    fn reserve_as(&self, uid: &str, seen: &str, reservation: Reservation) -> bool {
        let mut known = lock(&self.0);
        known.reserved.retain(|_, it| it.holds());
        let is_free = !known.is_reserved(uid, seen);
        if is_free {
            known.reserved.insert(uid.to_owned(), reservation);
        }
        is_free
    }

    /// Makes a pod that is held free again, once it is another one than this.
    pub(crate) fn let_go(&self, uid: &str, version: &str) {
        if let Some(held) = lock(&self.0).reserved.get_mut(uid) {
            held.version = Some(version.to_owned());
        }
    }

    /// Makes a pod free again that nobody takes or deletes.
    pub(crate) fn release(&self, uid: &str) {
        lock(&self.0).reserved.remove(uid);
    }

    /// Returns whether sessions are taking pods of a BrowserConfig now, and began to do so within this time.
    pub(crate) fn is_taking(&self, config: &str, within: Duration) -> bool {
        let known = lock(&self.0);
        let mut reserved = known.reserved.values();
        reserved.any(|it| {
            it.version.is_none()
                && it.taken_from.as_deref() == Some(config)
                && it.since.elapsed() < within
        })
    }

    /// Returns whether a pod is somebody's, as it was seen.
    pub(crate) fn is_reserved(&self, pod: &SeenPod) -> bool {
        lock(&self.0).is_reserved(uid(pod), version(pod))
    }

    /// Notes that a session of the pool began.
    pub(crate) fn began(&self, pool: &PoolId, now: Timestamp) {
        let mut known = lock(&self.0);
        let of = known.pools.entry(pool.clone()).or_default();
        of.demand.began(now);
    }

    /// Returns how many pods the sessions of the last minutes would have needed.
    pub(crate) fn demand(&self, pool: &PoolId, now: Timestamp) -> usize {
        let mut known = lock(&self.0);
        let of = known.pools.get_mut(pool);
        of.map_or(0, |of| of.demand.busiest(now))
    }

    /// Returns the last recipe of a pool.
    pub(crate) fn recipe(&self, pool: &PoolId) -> Option<Arc<Recipe>> {
        let known = lock(&self.0);
        let (_, _, recipe) = known.pools.get(pool)?.recipe.as_ref()?;
        recipe.as_ref().ok().map(Arc::clone)
    }

    /// Returns the pods of a BrowserConfig that were created, but for those that the watch shows.
    pub(crate) fn created(&self, config: &str, shown: &HashSet<&str>) -> Vec<Arc<SeenPod>> {
        let mut known = lock(&self.0);
        let is_shown = |it: &String| shown.contains(it.as_str());
        known
            .created
            .retain(|uid, (_, at)| at.elapsed() < CREATED && !is_shown(uid));
        let created = known.created.values().map(|(pod, _)| pod);
        created
            .filter(|pod| pod.controller() == Some(config))
            .cloned()
            .collect()
    }

    /// Notes a pod that was created.
    pub(crate) fn has_created(&self, pod: &Arc<SeenPod>) {
        let created = (Arc::clone(pod), Instant::now());
        lock(&self.0).created.insert(uid(pod).to_owned(), created);
    }

    /// Whether the process began to look only a while ago, so that it does not know the demand.
    pub(crate) fn is_unknowing(&self) -> bool {
        let mut known = lock(&self.0);
        let begun = known.begun.get_or_insert_with(Instant::now);
        begun.elapsed() < UNKNOWING
    }

    /// Whether this NetworkPolicy of a BrowserConfig was applied a moment ago.
    pub(crate) fn was_applied(&self, config: &str, policy: &str) -> bool {
        let known = lock(&self.0);
        let last = known.applied.get(config);
        last.is_some_and(|(applied, at)| applied == policy && at.elapsed() < APPLIED)
    }

    /// Notes that it was.
    pub(crate) fn has_applied(&self, config: &str, policy: String) {
        let now = (policy, Instant::now());
        lock(&self.0).applied.insert(config.to_owned(), now);
    }

    pub(crate) fn recent_recipe(
        &self,
        pool: &PoolId,
        of: &MadeOf,
    ) -> Option<Result<Arc<Recipe>, String>> {
        let known = lock(&self.0);
        let (made_of, since, recipe) = known.pools.get(pool)?.recipe.as_ref()?;
        let holds = if recipe.is_ok() { RECIPE } else { NO_RECIPE };
        (made_of == of && since.elapsed() < holds).then(|| recipe.clone())
    }

    pub(crate) fn knows(&self, pool: &PoolId, of: MadeOf, recipe: Result<Arc<Recipe>, String>) {
        let mut known = lock(&self.0);
        let pool = known.pools.entry(pool.clone()).or_default();
        if let (Err(_), Some((before, at, Ok(_)))) = (&recipe, &mut pool.recipe)
            && *before == of
        {
            // Nothing says that pods should be other ones now: a plugin may be slow for a moment.
            *at = Instant::now();
            return;
        }
        pool.recipe = Some((of, Instant::now(), recipe));
    }

    /// Forgets the pools that a BrowserConfig has no more; with none, all of a BrowserConfig that is gone.
    pub(crate) fn keep_only(&self, config: &str, pools: &[Pool]) {
        let kept: HashSet<&PoolId> = pools.iter().map(|pool| &pool.id).collect();
        let mut known = lock(&self.0);
        known
            .pools
            .retain(|id, _| id.uid != config || kept.contains(id));
        if pools.is_empty() {
            known.written.remove(config);
            known.applied.remove(config);
        }
    }

    pub(crate) fn written(&self, config: &str) -> Option<Timestamp> {
        lock(&self.0).written.get(config).copied()
    }

    /// Notes that the status of a BrowserConfig was written.
    pub(crate) fn has_written(&self, config: &str, now: Timestamp) {
        lock(&self.0).written.insert(config.to_owned(), now);
    }
}

impl Reservation {
    fn holds(&self) -> bool {
        self.since.elapsed() < RESERVED
    }
}

impl Known {
    fn is_reserved(&self, uid: &str, version: &str) -> bool {
        let reservation = self.reserved.get(uid).filter(|it| it.holds());
        reservation.is_some_and(|it| it.version.as_deref().is_none_or(|of| of == version))
    }

    /// Notes what a pod was and is.
    fn shown(&mut self, before: Option<&SeenPod>, after: Option<&SeenPod>) {
        if let Some(pod) = after.or(before) {
            self.created.remove(uid(pod));
            if after.is_none_or(|pod| !waits(pod)) {
                self.reserved.remove(uid(pod));
            }
        }
        let (before, after) = (before.and_then(Owned::of), after.and_then(Owned::of));
        if before == after {
            return;
        }
        if let Some(Owned { owner, name, uid }) = before
            && let Some(pods) = self.owned.get_mut(&owner)
            && pods.get(name).is_some_and(|it| it == uid)
        {
            pods.remove(name);
            if pods.is_empty() {
                self.owned.remove(&owner);
            }
        }
        if let Some(Owned { owner, name, uid }) = after {
            let pods = self.owned.entry(owner).or_default();
            pods.insert(name.to_owned(), uid.to_owned());
        }
    }
}

/// Whether a pod waits for a session.
fn waits(pod: &SeenPod) -> bool {
    pod.warm
        .as_ref()
        .is_some_and(|mark| !mark.config.is_empty())
}

/// A pod that has another name than its owner.
#[derive(PartialEq, Eq)]
struct Owned<'p> {
    owner: Owner,
    name: &'p str,
    uid: &'p str,
}

impl<'p> Owned<'p> {
    fn of(pod: &'p SeenPod) -> Option<Self> {
        let (owner, name) = (pod.owner()?, pod.metadata.name.as_deref()?);
        (owner.name != name).then(|| Self {
            owner: (pod.metadata.namespace.clone(), owner.uid.clone()),
            name,
            uid: uid(pod),
        })
    }
}

#[cfg(test)]
mod tests;
