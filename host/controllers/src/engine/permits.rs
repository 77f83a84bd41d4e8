//! How many passes of one namespace are made at once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::core::ObjectMeta;

/// A namespace and a name in it.
type Id = (String, String);

/// The permits that a namespace has among the passes.
///
/// A pass waits for its requests, and a webhook that hangs, for one namespace alone, makes all of that namespace's passes last for
/// half a minute. They must not take every permit: an object that finds none of its namespace free is set aside, without keeping
/// one, and is woken when a pass of its namespace has ended.
#[derive(Clone)]
pub(super) struct PassPermits(Arc<Inner>);

struct Inner {
    /// How many each namespace has.
    each: usize,
    /// How many objects without a namespace have together.
    cluster: usize,
    namespaces: Mutex<HashMap<String, Namespace>>,
    woken: UnboundedSender<Id>,
}

#[derive(Default)]
struct Namespace {
    taken: usize,
    /// Set aside and not woken since. `order` may also name some that have had a pass meanwhile.
    aside: HashSet<String>,
    order: VecDeque<String>,
}

/// A permit; it is free again when this is dropped.
pub(super) struct PassPermit {
    permits: PassPermits,
    namespace: String,
}

impl PassPermits {
    /// Returns the permits, so many for each namespace and so many for the objects that have none, and the objects that were set aside
    /// and can be looked at now.
    pub(super) fn new(each: usize, cluster: usize) -> (Self, UnboundedReceiver<Id>) {
        let (woken, wakes) = unbounded();
        let inner = Inner {
            each,
            cluster,
            namespaces: Mutex::default(),
            woken,
        };
        (Self(Arc::new(inner)), wakes)
    }

    /// Returns a permit for a pass of an object; if there is none, the object is set aside.
    pub(super) fn take(&self, object: &ObjectMeta) -> Option<PassPermit> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let name = object.name.as_deref().unwrap_or_default();
        let mut namespaces = self.lock();
        let of = namespaces.entry(namespace.to_owned()).or_default();
        if of.taken >= self.of(namespace) {
            if of.aside.insert(name.to_owned()) {
                of.order.push_back(name.to_owned());
            }
            return None;
        }
        of.taken = of.taken.saturating_add(1);
        of.aside.remove(name);
        Some(PassPermit {
            permits: self.clone(),
            namespace: namespace.to_owned(),
        })
    }

    /// Notes that an object which was woken makes no pass: its permit goes to the next.
    pub(super) fn passed_by(&self, namespace: &str) {
        self.wake(&mut self.lock(), namespace);
    }

    /// Wakes one for each free permit.
    fn wake(&self, namespaces: &mut HashMap<String, Namespace>, namespace: &str) {
        let Some(of) = namespaces.get_mut(namespace) else {
            return;
        };
        let mut free = self.of(namespace).saturating_sub(of.taken);
        while free > 0
            && let Some(name) = of.order.pop_front()
        {
            if of.aside.remove(&name) {
                free -= 1;
                // Nobody listens any more only when the controller has ended.
                let _ = self.0.woken.unbounded_send((namespace.to_owned(), name));
            }
        }
        if of.taken == 0 && of.order.is_empty() {
            namespaces.remove(namespace);
        }
    }

    fn of(&self, namespace: &str) -> usize {
        match namespace {
            "" => self.0.cluster,
            _ => self.0.each,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Namespace>> {
        let namespaces = self.0.namespaces.lock();
        namespaces.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PassPermit {
    fn drop(&mut self) {
        let mut namespaces = self.permits.lock();
        if let Some(of) = namespaces.get_mut(&self.namespace) {
            of.taken = of.taken.saturating_sub(1);
        }
        self.permits.wake(&mut namespaces, &self.namespace);
    }
}

#[cfg(test)]
mod tests;
