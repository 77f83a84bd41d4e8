//! Which objects to look at, until somebody takes them. Each counts once until it is taken, so there are never more than objects and
//! namespaces.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt, stream};
use kube::core::ObjectMeta;
use podloom_turns::lock;
use tokio::sync::Notify;

/// Where objects are noted. Cheap to clone; all clones share them.
#[derive(Clone, Default)]
pub struct Wakes(Arc<Inner>);

#[derive(Default)]
struct Inner {
    noted: Mutex<Noted>,
    /// Keeps one signal for the next one that waits.
    bell: Notify,
}

/// What is noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Whether all objects are.
    pub all: bool,
    /// Namespaces whose objects are.
    pub namespaces: BTreeSet<String>,
    /// Namespaces and names. The namespace of a cluster-scoped object is empty.
    pub some: BTreeSet<(String, String)>,
}

impl Noted {
    /// Returns whether the object of this metadata may be noted with others: with all, or with its namespace.
    pub fn includes(&self, object: &ObjectMeta) -> bool {
        let namespace = object.namespace.as_ref();
        self.all || namespace.is_some_and(|namespace| self.namespaces.contains(namespace))
    }
}

impl Wakes {
    /// Wakes an object.
    pub fn wake(&self, namespace: &str, name: &str) {
        let id = (namespace.to_owned(), name.to_owned());
        lock(&self.0.noted).some.insert(id);
        self.0.bell.notify_one();
    }

    /// Wakes the objects of a namespace, or all.
    pub fn wake_in(&self, namespace: Option<&str>) {
        let mut noted = lock(&self.0.noted);
        match namespace {
            Some(namespace) => {
                noted.namespaces.insert(namespace.to_owned());
            }
            None => noted.all = true,
        }
        drop(noted);
        self.0.bell.notify_one();
    }

    /// Returns what is noted, each time that something is. Take it once: two streams would share it.
    pub fn taken(&self) -> impl Stream<Item = Noted> + Send + use<> {
        stream::unfold(self.clone(), |wakes| async move {
            wakes.0.bell.notified().await;
            Some((wakes.take(), wakes))
        })
        .filter(|taken| std::future::ready(*taken != Noted::default()))
    }

    /// Takes what is noted now.
    pub fn take(&self) -> Noted {
        std::mem::take(&mut *lock(&self.0.noted))
    }
}

#[cfg(test)]
mod tests;
