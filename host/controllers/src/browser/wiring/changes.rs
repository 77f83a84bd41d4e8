//! The namespaces in which something changed, until somebody looks.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::mpsc;
use futures::{Stream, StreamExt, stream};

/// Where something changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In the namespace of this name.
    Namespace(String),
    /// Perhaps in each.
    Everywhere,
}

impl Place {
    pub(super) fn includes(&self, namespace: Option<&str>) -> bool {
        match self {
            Self::Namespace(name) => namespace == Some(name),
            Self::Everywhere => true,
        }
    }
}

/// Where changes are noted. What changes twice before somebody looks is one change, so there are never more than namespaces.
#[derive(Clone)]
pub(super) struct Changes {
    places: Arc<Mutex<BTreeSet<Place>>>,
    bell: mpsc::Sender<()>,
}

/// Returns where to note changes, and the stream of them.
pub(super) fn changes() -> (Changes, impl Stream<Item = Place> + Send + use<>) {
    let places: Arc<Mutex<BTreeSet<Place>>> = Arc::default();
    let (bell, rings) = mpsc::channel(1);
    let noted = Arc::clone(&places);
    let taken = rings.flat_map(move |()| stream::iter(take(&noted)));
    (Changes { places, bell }, taken)
}

impl Changes {
    pub(super) fn note(&mut self, place: Place) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.insert(place);
        drop(places);
        // If it is full, it has rung and nobody has looked yet.
        let _ = self.bell.try_send(());
    }
}

fn take(places: &Mutex<BTreeSet<Place>>) -> BTreeSet<Place> {
    std::mem::take(&mut *places.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
