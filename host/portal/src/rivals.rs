//! PortalExposes that want the same hostname. A relay serves a hostname for one key, so the oldest of them gets it.
//!
//! An index says who wants which hostname. The watches keep it right, so neither a pass nor a change looks at all PortalExposes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::{PortalExposeObject, PortalExposeSpec};
use podloom_turns::lock;

use super::check::Authority;
use super::check::TARGETS_MAX;
use super::world::{Conflict, has_finalizer};

/// The namespace and the name of a PortalExpose.
pub(crate) type Id = (String, String);

/// Who wants which hostname, in all watch scopes. Cheap to clone; all clones share it.
#[derive(Clone, Default)]
pub(crate) struct Rivals(Arc<Mutex<Index>>);

#[derive(Default)]
struct Index {
    /// Who wants a hostname. The first gets it.
    rivals: HashMap<Hostname, BTreeSet<Arc<Rival>>>,
    /// What each wants.
    wishes: HashMap<Id, Wish>,
}

/// What of an application and a relay makes a hostname. Namespaces do not matter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Hostname {
    authority: Authority,
    app: String,
}

/// The order says who gets a hostname: the oldest. Names make it total, since two may be created in the same second.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rival {
    /// Whether it is so new that it has no time.
    is_new: bool,
    created: Option<Timestamp>,
    id: Id,
}

struct Wish {
    edition: Edition,
    rival: Arc<Rival>,
    hostnames: BTreeSet<Hostname>,
}

/// As long as it is the same, a PortalExpose wants the same: a status is nobody else's business.
#[derive(PartialEq, Eq)]
struct Edition {
    uid: Option<String>,
    generation: Option<i64>,
    exists: bool,
}

impl Rivals {
    /// Notes what a PortalExpose wants now. Returns the others for which this may change who gets a hostname.
    pub(crate) fn put(&self, expose: &PortalExposeObject) -> BTreeSet<Id> {
        let edition = Edition::of(&expose.metadata);
        let id = id(&expose.metadata);
        let mut index = lock(&self.0);
        let known = index.wishes.get(&id);
        if known.is_some_and(|wish| wish.edition == edition) {
            return BTreeSet::new();
        }
        let wish = edition.exists.then(|| Wish {
            rival: Arc::new(Rival::of(&expose.metadata)),
            hostnames: hostnames(&expose.spec).collect(),
            edition,
        });
        index.replace(&id, wish)
    }

    /// Forgets what a PortalExpose wanted. Returns the same as [`Rivals::put`].
    pub(crate) fn remove(&self, id: &Id) -> BTreeSet<Id> {
        lock(&self.0).replace(id, None)
    }

    /// Forgets what all wanted but those that a test picks.
    pub(crate) fn keep(&self, is_kept: impl Fn(&Id) -> bool) {
        let known: Vec<Id> = lock(&self.0).wishes.keys().cloned().collect();
        for gone in known.iter().filter(|id| !is_kept(id)) {
            self.remove(gone);
        }
    }

    /// Returns the conflict with the oldest of the others, if that is older than this one.
    pub(crate) fn conflict(&self, expose: &PortalExposeObject) -> Option<Conflict> {
        let own = Rival::of(&expose.metadata);
        let index = lock(&self.0);
        let winners = hostnames(&expose.spec).filter_map(|hostname| {
            let winner = index.rivals.get(&hostname)?.first()?;
            (**winner < own).then(|| (Arc::clone(winner), hostname.authority))
        });
        let (oldest, authority) = winners.min_by(|(one, _), (other, _)| one.cmp(other))?;
        let (namespace, name) = &oldest.id;
        let is_near = *namespace == own.id.0;
        Some(Conflict {
            authority,
            name: is_near.then(|| name.clone()),
        })
    }

    /// How many hostnames anybody wants.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).rivals.len()
    }
}

impl Index {
    /// Replaces what one wants, and returns all others that want a hostname which another one gets from now on.
    fn replace(&mut self, id: &Id, wish: Option<Wish>) -> BTreeSet<Id> {
        let before = self.wishes.remove(id);
        let both = before.iter().chain(&wish);
        let hostnames: BTreeSet<_> = both.flat_map(|it| it.hostnames.iter().cloned()).collect();
        let mut concerned = BTreeSet::new();
        for hostname in hostnames {
            let rivals = self.rivals.entry(hostname.clone()).or_default();
            let winner = rivals.first().cloned();
            if let Some(before) = &before {
                rivals.remove(&before.rival);
            }
            if let Some(wish) = wish.as_ref().filter(|it| it.hostnames.contains(&hostname)) {
                rivals.insert(Arc::clone(&wish.rival));
            }
            if rivals.first() != winner.as_ref() {
                concerned.extend(rivals.iter().map(|rival| rival.id.clone()));
            }
            if rivals.is_empty() {
                self.rivals.remove(&hostname);
            }
        }
        if let Some(wish) = wish {
            self.wishes.insert(id.clone(), wish);
        }
        concerned.remove(id);
        concerned
    }
}

impl Rival {
    fn of(metadata: &ObjectMeta) -> Self {
        let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            is_new: created.is_none(),
            created,
            id: id(metadata),
        }
    }
}

impl Edition {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            // Whether its tunnel may exist. One that is being deleted may have finalizers of others for ever.
            exists: metadata.deletion_timestamp.is_none() || has_finalizer(metadata),
        }
    }
}

/// Returns the namespace and the name of a PortalExpose.
pub(crate) fn id(metadata: &ObjectMeta) -> Id {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    (text(&metadata.namespace), text(&metadata.name))
}

/// Returns a relay at which two specs have the same hostname.
pub(crate) fn shared(one: &PortalExposeSpec, other: &PortalExposeSpec) -> Option<Authority> {
    let theirs: BTreeSet<Hostname> = hostnames(other).collect();
    let shared = hostnames(one).find(|hostname| theirs.contains(hostname))?;
    Some(shared.authority)
}

/// The hostnames that a spec wants. One that an older schema let in may have more relays than are looked at.
fn hostnames(spec: &PortalExposeSpec) -> impl Iterator<Item = Hostname> {
    let targets = spec.relay.targets.iter().take(TARGETS_MAX);
    let authorities = targets.filter_map(|target| Authority::parse(&target.url));
    authorities.map(|authority| Hostname {
        authority,
        app: spec.app.name.clone(),
    })
}

#[cfg(test)]
mod tests;
