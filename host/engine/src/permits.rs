//! A limit on the concurrent passes of one namespace.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::core::ObjectMeta;
use podloom_turns::lock;

/// A namespace and a name in it.
type Id = (String, String);

/// The permits of each namespace to make passes.
///
/// A pass waits for its requests. If a webhook hangs for one namespace, each pass of that namespace takes half a minute, and without a
/// limit they would soon be all passes. So an object that gets no permit of its namespace is parked, and woken when a pass of the
/// namespace ends.
#[derive(Clone)]
pub(super) struct PassPermits(Arc<Inner>);

struct Inner {
    /// The permits of each namespace.
    each: usize,
    /// The permits of all cluster-scoped objects together.
    cluster: usize,
    namespaces: Mutex<HashMap<String, Namespace>>,
    woken: UnboundedSender<Id>,
}

#[derive(Default)]
struct Namespace {
    taken: usize,
    /// Objects that are parked. `order` may also name some that had a pass meanwhile.
    parked: HashSet<String>,
    order: VecDeque<String>,
}

/// A permit for one pass; it is returned when this is dropped.
pub(super) struct PassPermit {
    permits: PassPermits,
    namespace: String,
}

impl PassPermits {
    /// Returns so many permits for each namespace and for the cluster-scoped objects, and the stream of parked objects to wake.
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

    /// Returns a permit for a pass of an object; if there is none, parks the object.
    pub(super) fn acquire(&self, object: &ObjectMeta) -> Option<PassPermit> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let name = object.name.as_deref().unwrap_or_default();
        let mut namespaces = self.lock();
        let of = namespaces.entry(namespace.to_owned()).or_default();
        if of.taken >= self.of(namespace) {
            if of.parked.insert(name.to_owned()) {
                of.order.push_back(name.to_owned());
            }
            return None;
        }
        of.taken = of.taken.saturating_add(1);
        of.parked.remove(name);
        Some(PassPermit {
            permits: self.clone(),
            namespace: namespace.to_owned(),
        })
    }

    /// Reports that a woken object makes no pass, so the next parked one can have its permit.
    pub(super) fn passed_by(&self, namespace: &str) {
        self.wake(&mut self.lock(), namespace);
    }

    /// Wakes a parked object for each free permit.
    fn wake(&self, namespaces: &mut HashMap<String, Namespace>, namespace: &str) {
        let Some(of) = namespaces.get_mut(namespace) else {
            return;
        };
        let mut free = self.of(namespace).saturating_sub(of.taken);
        while free > 0
            && let Some(name) = of.order.pop_front()
        {
            if of.parked.remove(&name) {
                free -= 1;
                // This fails only after the controller has ended.
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
        lock(&self.0.namespaces)
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
