//! What was said last in statuses that other installations may write too.
//!
//! Several installations that watch single namespaces may use the same cluster-scoped object, and each sees it with its own eyes: its own
//! Clusters, its own network, its own right to the Secret. If each wrote whatever differs from what it sees, they would overwrite each
//! other for ever. So each writes only what is new in its own eyes, and the latest news stands.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use podloom_api::{CloudStatus, InfrastructureProviderStatus};
use podloom_turns::lock;

/// A status that several installations may write.
pub(crate) trait Shared: Clone + PartialEq {
    /// Its conditions.
    fn conditions(&mut self) -> &mut Option<Vec<Condition>>;
    /// The generation that it is about.
    fn generation(&self) -> Option<i64>;

    /// Returns the same without times, which come from what others wrote.
    fn timeless(&self) -> Self {
        let mut timeless = self.clone();
        for condition in timeless.conditions().iter_mut().flatten() {
            condition.last_transition_time = Time(jiff::Timestamp::UNIX_EPOCH);
        }
        timeless
    }
}

impl Shared for CloudStatus {
    fn conditions(&mut self) -> &mut Option<Vec<Condition>> {
        &mut self.conditions
    }

    fn generation(&self) -> Option<i64> {
        self.observed_generation
    }
}

impl Shared for InfrastructureProviderStatus {
    fn conditions(&mut self) -> &mut Option<Vec<Condition>> {
        &mut self.conditions
    }

    fn generation(&self) -> Option<i64> {
        self.observed_generation
    }
}

/// What this process said last about each object, by UID; of objects whose status nobody else writes, nothing. Cheap to clone; all
/// clones share it.
#[derive(Clone)]
pub(crate) struct Sayings<S>(Option<Arc<Mutex<HashMap<String, S>>>>);

/// What this process said last about an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said<S> {
    /// It does not matter: nobody else writes the status.
    Alone,
    /// Nothing yet.
    Nothing,
    /// This, without times.
    This(Box<S>),
}

impl<S> Default for Sayings<S> {
    /// Returns those about objects whose status nobody else writes.
    fn default() -> Self {
        Self(None)
    }
}

impl<S: Shared> Sayings<S> {
    /// Returns those about objects whose status other installations may write too.
    pub(crate) fn among_others() -> Self {
        Self(Some(Arc::default()))
    }

    /// Returns what was said last about an object.
    pub(crate) fn of(&self, uid: &str) -> Said<S> {
        let Some(all) = &self.0 else {
            return Said::Alone;
        };
        match lock(all).get(uid) {
            Some(said) => Said::This(Box::new(said.clone())),
            None => Said::Nothing,
        }
    }

    /// Remembers what was said about an object.
    pub(crate) fn put(&self, uid: &str, status: &S) {
        if let Some(all) = &self.0 {
            lock(all).insert(uid.to_owned(), status.timeless());
        }
    }

    /// Forgets all objects but these.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        if let Some(all) = &self.0 {
            lock(all).retain(|uid, _| is_there(uid));
        }
    }
}

impl<S: Shared> Said<S> {
    /// Returns whether a status is to be written in place of the one that is seen. `is_used` is whether one of our own Clusters needs the
    /// object.
    pub(crate) fn is_due(&self, seen: Option<&S>, wanted: &S, is_used: bool) -> bool {
        let Some(seen) = seen else {
            return true;
        };
        match self {
            _ if seen == wanted => false,
            Self::Alone => true,
            Self::This(last) => **last != wanted.timeless(),
            // Whoever uses it has said it.
            Self::Nothing => is_used || seen.generation() != wanted.generation(),
        }
    }
}

#[cfg(test)]
mod tests;
