//! The namespaces in which something changed, until they are taken.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::channel::mpsc;
use futures::{Stream, StreamExt, stream};
use podloom_turns::lock;

/// Which namespaces a change affects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Affected {
    /// The namespace of this name.
    Namespace(String),
    /// Perhaps every namespace.
    All,
}

impl Affected {
    pub(super) fn includes(&self, namespace: Option<&str>) -> bool {
        match self {
            Self::Namespace(name) => namespace == Some(name),
            Self::All => true,
        }
    }
}

/// Where changes are noted. Changes of one namespace count once until they are taken, so there are never more than namespaces.
#[derive(Clone)]
pub(super) struct Changes {
    affected: Arc<Mutex<BTreeSet<Affected>>>,
    bell: mpsc::Sender<()>,
}

/// Returns where to note changes, and the stream of them.
pub(super) fn changes() -> (Changes, impl Stream<Item = Affected> + Send + use<>) {
    let affected: Arc<Mutex<BTreeSet<Affected>>> = Arc::default();
    let (bell, rings) = mpsc::channel(1);
    let noted = Arc::clone(&affected);
    let taken = rings.flat_map(move |()| stream::iter(take(&noted)));
    (Changes { affected, bell }, taken)
}

impl Changes {
    pub(super) fn note(&mut self, change: Affected) {
        let mut affected = lock(&self.affected);
        affected.insert(change);
        drop(affected);
        // If it is full, it has rung and nothing was taken yet.
        let _ = self.bell.try_send(());
    }
}

fn take(affected: &Mutex<BTreeSet<Affected>>) -> BTreeSet<Affected> {
    std::mem::take(&mut *lock(affected))
}

#[cfg(test)]
mod tests;
