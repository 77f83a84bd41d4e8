//! Which objects to wake, until their controllers take them. An object counts once until it is taken, so there are never more than
//! objects.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt, stream};
use podloom_turns::lock;
use tokio::sync::Notify;

/// Where objects of one controller are noted. Cheap to clone; all clones share them.
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
    /// Namespaces and names. The namespace of a cluster-scoped object is empty.
    pub some: BTreeSet<(String, String)>,
}

impl Wakes {
    /// Wakes an object.
    pub fn wake(&self, namespace: &str, name: &str) {
        let id = (namespace.to_owned(), name.to_owned());
        lock(&self.0.noted).some.insert(id);
        self.0.bell.notify_one();
    }

    /// Wakes all objects.
    pub fn wake_all(&self) {
        lock(&self.0.noted).all = true;
        self.0.bell.notify_one();
    }

    /// Returns what is noted, each time that something is. Take it once: two streams would share it.
    pub fn taken(&self) -> impl Stream<Item = Noted> + Send + use<> {
        stream::unfold(self.clone(), |wakes| async move {
            wakes.0.bell.notified().await;
            let taken = std::mem::take(&mut *lock(&wakes.0.noted));
            Some((taken, wakes))
        })
        .filter(|taken| std::future::ready(*taken != Noted::default()))
    }
}

#[cfg(test)]
mod tests;
