//! Watches of the kinds of targets: one for each kind, of metadata only, as long as a Cleaner uses it. Nothing of what they show is kept.
//!
//! If all namespaces are watched and the operator may not watch a kind in all of them, it is watched in each namespace that is used.
//! Where that is forbidden too, Cleaners go by their period alone, and say so.

mod kinds;
mod task;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use kube::core::ObjectMeta;
use podloom_turns::lock;
use tokio::sync::watch;
use tokio::time::timeout;

use self::kinds::{Answer, Kinds, Reach};
use super::alarms::Alarms;
use super::index::{Index, Interest, Place, SeenObject};
use super::metrics::CleanerMetrics;
use super::served::{KindKey, ServedKind};
use super::who::CleanerId;

/// How long a look waits for a new watch. Later, what changed in between shows in the watch's first list.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// The watches. Cheap to clone; all clones share them. They end with the last clone.
#[derive(Clone)]
pub(super) struct Watches(Arc<Inner>);

struct Inner {
    client: Client,
    alarms: Alarms,
    metrics: CleanerMetrics,
    state: Mutex<State>,
    /// Changes when a watch is answered.
    answers: watch::Sender<u64>,
}

struct State {
    index: Index,
    kinds: Kinds,
}

/// What a Cleaner is interested in, and the kind of it.
pub(super) type Wish = (Arc<ServedKind>, Interest);

impl Watches {
    /// Returns some without any watch. `is_wide` says whether the operator works in all namespaces.
    pub(super) fn new(
        client: Client,
        is_wide: bool,
        alarms: Alarms,
        metrics: CleanerMetrics,
    ) -> Self {
        let reach = match is_wide {
            true => Reach::AllNamespaces,
            false => Reach::EachNamespace,
        };
        Self(Arc::new(Inner {
            client,
            alarms,
            metrics,
            state: Mutex::new(State {
                index: Index::default(),
                kinds: Kinds::new(reach),
            }),
            answers: watch::Sender::new(0),
        }))
    }

    /// Sets what a Cleaner is interested in: watches begin, and those that nobody uses any more end.
    pub(super) fn set(&self, id: &CleanerId, wishes: &[Wish]) {
        let interests: Vec<Interest> = wishes.iter().map(|(_, it)| it.clone()).collect();
        let mut state = lock(&self.0.state);
        let State { index, kinds } = &mut *state;
        let before: BTreeSet<Place> = index.places(&id.uid).cloned().collect();
        let after = index.set(id, &interests);
        for (kind, interest) in wishes {
            let starts = kinds.add(kind, &interest.namespace, &id.uid);
            kinds.start(starts, |watched| {
                task::run(Arc::downgrade(&self.0), watched)
            });
        }
        for place in before.difference(&after) {
            kinds.remove(place, &id.uid);
        }
        self.0.metrics.watched(kinds.count());
    }

    /// Ends what a Cleaner is interested in.
    pub(super) fn forget(&self, id: &CleanerId) {
        if self.knows(&id.uid) {
            self.set(id, &[]);
        }
    }

    /// Returns whether a Cleaner is interested in anything.
    pub(super) fn knows(&self, uid: &str) -> bool {
        lock(&self.0.state).index.knows(uid)
    }

    /// Sets what a Cleaner has seen of the objects that it is interested in.
    pub(super) fn see(&self, id: &CleanerId, objects: Vec<SeenObject>) {
        lock(&self.0.state).index.see(id, objects);
    }

    /// Waits until all watches that a Cleaner uses have an answer of the API server, but not for long.
    pub(super) async fn answered(&self, uid: &str) {
        let mut answers = self.0.answers.subscribe();
        let answered = async {
            while lock(&self.0.state).has_pending(uid) {
                if answers.changed().await.is_err() {
                    return;
                }
            }
        };
        // Without an answer, the look goes on.
        let _ = timeout(FIRST_ANSWER, answered).await;
    }

    /// Returns the kinds that a Cleaner is interested in and the operator may not watch. From now on, the Cleaner is woken when that
    /// changes.
    pub(super) fn unwatched(&self, uid: &str) -> Vec<String> {
        let mut state = lock(&self.0.state);
        let State { index, kinds } = &mut *state;
        let forbidden = index
            .places(uid)
            .filter(|place| kinds.tell(place) == Answer::Forbidden);
        let names: BTreeSet<String> = forbidden.map(|(kind, _)| kind.to_string()).collect();
        names.into_iter().collect()
    }
}

impl Inner {
    /// Wakes whom a change of an object matters to.
    fn changed(&self, place: &Place, object: &ObjectMeta) {
        let affected = lock(&self.state).index.affected(place, object);
        self.alarms.ring(&affected);
    }

    /// Puts down what the API server answers to a watch, and wakes those to whom something else was told.
    fn answered(self: &Arc<Self>, kind: &KindKey, namespace: Option<&Arc<str>>, answer: Answer) {
        let mut state = lock(&self.state);
        let State { index, kinds } = &mut *state;
        let starts = kinds.answered(kind, namespace, answer);
        kinds.start(starts, |watched| task::run(Arc::downgrade(self), watched));
        let mut surprised = Vec::new();
        for place in kinds.surprises(kind) {
            surprised.extend(index.users(&place));
        }
        drop(state);
        self.alarms.ring(&surprised);
        self.answers
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl State {
    fn has_pending(&self, uid: &str) -> bool {
        let mut places = self.index.places(uid);
        places.any(|place| self.kinds.answer(place) == Answer::Pending)
    }
}

#[cfg(test)]
mod tests;
