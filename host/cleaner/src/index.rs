//! Which Cleaners a change of an object matters to.
//!
//! - By kind and name, also of objects that do not exist: so their creation is noticed.
//! - By the objects that were seen: so one that leaves a selector is noticed.
//! - By selectors: so one that enters is.
//!
//! An event that shows an object exactly as it was seen matters to nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{ObjectMeta, Selector, SelectorExt};

use crate::checked::Selection;
use crate::discovery::KindKey;
use crate::memory::CleanerId;

/// A kind in a namespace, which is empty for a cluster-scoped kind.
pub(super) type Place = (KindKey, Arc<str>);
/// What a Cleaner is interested in: where, and which objects.
pub(super) type Interest = (Place, Selection);
/// An object as a Cleaner saw it: where it is, its name, and its version.
pub(super) type SeenObject = (Place, String, String);

/// Who is interested in what.
#[derive(Default)]
pub(super) struct Index {
    places: HashMap<Place, Interested>,
    /// Where each Cleaner, by its UID, is interested.
    of: HashMap<Arc<str>, BTreeSet<Place>>,
}

/// Who is interested in the objects of one place.
#[derive(Default)]
struct Interested {
    subscriptions: HashMap<Arc<str>, Subscription>,
    /// The UIDs of the candidates for a change, by what objects have.
    candidates: HashMap<Trait, BTreeSet<Arc<str>>>,
}

/// What objects have that matter to a Cleaner: a label, which is its key and its value; or a name, with an empty key. All have what is
/// empty twice.
type Trait = (String, String);

struct Subscription {
    id: CleanerId,
    names: BTreeSet<String>,
    selectors: Vec<Selector>,
    /// The versions of the objects that were seen, by name.
    seen: BTreeMap<String, String>,
}

impl Index {
    /// Sets what a Cleaner is interested in, and returns the places of that. What it has seen is kept.
    pub(super) fn set(&mut self, id: &CleanerId, interests: &[Interest]) -> BTreeSet<Place> {
        let mut wanted: BTreeMap<Place, Vec<&Selection>> = BTreeMap::new();
        for (place, objects) in interests {
            wanted.entry(place.clone()).or_default().push(objects);
        }
        let before = self.of.remove(&id.uid).unwrap_or_default();
        for place in before.iter().filter(|place| !wanted.contains_key(place)) {
            self.leave(place, &id.uid);
        }
        for (place, wanted) in &wanted {
            let interested = self.places.entry(place.clone()).or_default();
            let before = interested.take(&id.uid);
            let seen = before.map(|it| it.seen).unwrap_or_default();
            interested.add(Subscription::of(id, wanted, seen));
        }
        let places: BTreeSet<Place> = wanted.into_keys().collect();
        if !places.is_empty() {
            self.of.insert(Arc::clone(&id.uid), places.clone());
        }
        places
    }

    /// Sets what a Cleaner has seen.
    pub(super) fn see(&mut self, id: &CleanerId, objects: Vec<SeenObject>) {
        let mut seen: BTreeMap<Place, BTreeMap<String, String>> = BTreeMap::new();
        for (place, name, version) in objects {
            seen.entry(place).or_default().insert(name, version);
        }
        for place in self.of.get(&id.uid).into_iter().flatten() {
            let Some(interested) = self.places.get_mut(place) else {
                continue;
            };
            if let Some(mut subscription) = interested.take(&id.uid) {
                subscription.seen = seen.remove(place).unwrap_or_default();
                interested.add(subscription);
            }
        }
    }

    /// Returns whether a Cleaner is interested in anything.
    pub(super) fn knows(&self, uid: &str) -> bool {
        self.of.contains_key(uid)
    }

    /// Returns the places that a Cleaner is interested in.
    pub(super) fn places(&self, uid: &str) -> impl Iterator<Item = &Place> {
        self.of.get(uid).into_iter().flatten()
    }

    /// Returns who is interested in a place.
    pub(super) fn users(&self, place: &Place) -> Vec<CleanerId> {
        let interested = self.places.get(place);
        let all = interested
            .into_iter()
            .flat_map(|it| it.subscriptions.values());
        all.map(|it| it.id.clone()).collect()
    }

    /// Returns whom a change of an object matters to. Its metadata has its name, version and labels.
    pub(super) fn affected(&self, place: &Place, object: &ObjectMeta) -> Vec<CleanerId> {
        let Some(interested) = self.places.get(place) else {
            return Vec::new();
        };
        let candidates = interested.candidates(object);
        let subscriptions = candidates
            .iter()
            .filter_map(|uid| interested.subscriptions.get(*uid));
        subscriptions
            .filter(|it| it.is_affected(object))
            .map(|it| it.id.clone())
            .collect()
    }

    /// Returns whether any Cleaner has seen an object of this name.
    pub(super) fn is_seen(&self, place: &Place, name: &str) -> bool {
        let Some(interested) = self.places.get(place) else {
            return false;
        };
        let candidates = interested.candidates.get(&named(name));
        let mut subscriptions = candidates
            .into_iter()
            .flatten()
            .filter_map(|uid| interested.subscriptions.get(uid));
        subscriptions.any(|it| it.seen.contains_key(name))
    }

    /// Returns who has seen an object of a kind that is not among those that there are, in one namespace or in all.
    pub(super) fn missing(
        &self,
        kind: &KindKey,
        namespace: Option<&str>,
        there: &HashSet<(Arc<str>, String)>,
    ) -> Vec<CleanerId> {
        let places = self.places.iter().filter(|((of, within), _)| {
            of == kind && namespace.is_none_or(|namespace| namespace == &**within)
        });
        let mut affected = Vec::new();
        for ((_, namespace), interested) in places {
            let is_missing =
                |name: &String| !there.contains(&(Arc::clone(namespace), name.clone()));
            let subscriptions = interested.subscriptions.values();
            let of_missing = subscriptions.filter(|it| it.seen.keys().any(is_missing));
            affected.extend(of_missing.map(|it| it.id.clone()));
        }
        affected
    }

    fn leave(&mut self, place: &Place, uid: &Arc<str>) {
        if let Some(interested) = self.places.get_mut(place) {
            interested.take(uid);
            if interested.subscriptions.is_empty() {
                self.places.remove(place);
            }
        }
    }
}

impl Interested {
    fn add(&mut self, subscription: Subscription) {
        let uid = &subscription.id.uid;
        for it in subscription.traits() {
            let users = self.candidates.entry(it).or_default();
            users.insert(Arc::clone(uid));
        }
        self.subscriptions.insert(Arc::clone(uid), subscription);
    }

    fn take(&mut self, uid: &Arc<str>) -> Option<Subscription> {
        let subscription = self.subscriptions.remove(uid)?;
        for it in subscription.traits() {
            if let Some(users) = self.candidates.get_mut(&it) {
                users.remove(uid);
                if users.is_empty() {
                    self.candidates.remove(&it);
                }
            }
        }
        Some(subscription)
    }

    fn candidates(&self, object: &ObjectMeta) -> BTreeSet<&Arc<str>> {
        let name = named(object.name.as_deref().unwrap_or_default());
        let labels = object.labels.iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
        let traits = [Trait::default(), name].into_iter().chain(labels);
        let users = traits.filter_map(|it| self.candidates.get(&it));
        users.flatten().collect()
    }
}

fn named(name: &str) -> Trait {
    (String::new(), name.to_owned())
}

impl Subscription {
    fn of(id: &CleanerId, wanted: &[&Selection], seen: BTreeMap<String, String>) -> Self {
        let (mut names, mut selectors) = (BTreeSet::new(), Vec::new());
        for selection in wanted {
            match selection {
                Selection::One(name) => names.extend([name.clone()]),
                Selection::Labelled(selector) => selectors.extend(selector.clone()),
            }
        }
        Self {
            id: id.clone(),
            names,
            selectors,
            seen,
        }
    }

    /// What an object has at least one of that matters to it. A selector has one label that it requires with a value, or none.
    fn traits(&self) -> impl Iterator<Item = Trait> {
        let names = self.names.iter().chain(self.seen.keys());
        let labels = self.selectors.iter().map(|selector| {
            let required = LabelSelector::from(selector.clone()).match_labels;
            required.and_then(|it| it.into_iter().next())
        });
        let labels = labels.map(Option::unwrap_or_default);
        names.map(|name| named(name)).chain(labels)
    }

    fn is_affected(&self, object: &ObjectMeta) -> bool {
        let name = object.name.as_deref().unwrap_or_default();
        if let Some(seen) = self.seen.get(name) {
            return object.resource_version.as_ref() != Some(seen);
        }
        let none = BTreeMap::new();
        let labels = object.labels.as_ref().unwrap_or(&none);
        self.names.contains(name) || self.selectors.iter().any(|it| it.matches(labels))
    }
}

#[cfg(test)]
mod tests;
