//! What the process remembers of each Cleaner, and where one is woken. After a restart nothing of it is needed: each Cleaner is then
//! looked at once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_cel::{Failure, Program};
use podloom_turns::lock;
use serde::Serialize;

/// What is remembered, by UID. Cheap to clone; all clones share it.
///
/// It knows a Cleaner from the event that shows it until the event that it is gone. What a pass that still runs learns after that is
/// dropped, so nothing is left of a Cleaner.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<HashMap<Arc<str>, Recalled>>>);

/// What the compiler says of the conditions: all compile, or these do not.
pub(super) type Compiled = Result<(), Arc<[Failure]>>;

/// The last look at the targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Looked {
    /// When it was.
    pub(super) at: Timestamp,
    /// The Cleaner as it was.
    #[serde(skip)]
    pub(super) edition: u64,
    /// How many events of targets had come before.
    #[serde(skip)]
    pub(super) events: u64,
    /// When the next look is due, unless something changes before.
    pub(super) due: Timestamp,
}

/// What is remembered of one Cleaner.
#[derive(Clone, Debug, Default)]
pub(super) struct Recalled {
    /// Of which generation the conditions were compiled.
    pub(super) generation: Option<i64>,
    /// What the compiler says of the conditions of this generation.
    pub(super) compiled: Option<Compiled>,
    /// The conditions. None while they are not needed: thousands of Cleaners may wait for their time.
    pub(super) programs: Option<Arc<[Program]>>,
    /// The last look at the targets.
    pub(super) looked: Option<Looked>,
    /// How many events of targets have come.
    pub(super) events: u64,
    /// When objects were last deleted.
    pub(super) attempted: Option<Timestamp>,
    /// The last attempt to deliver its CloudEvent, or the one that runs.
    pub(super) attempt: Option<Attempt>,
}

/// An attempt to deliver the event of a Cleaner, as the process remembers it. After a restart, nothing of it is needed: the event is sent
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Attempt {
    /// Which one it is of this event; the first has 1.
    pub(crate) number: i32,
    /// Where the event goes.
    pub(crate) sink: String,
    /// How many attempts at this sink have failed in a row.
    pub(crate) failures: u32,
    /// What came of it.
    #[serde(skip)]
    pub(crate) state: AttemptState,
}

/// What came of an attempt. A failure and what postpones an attempt have a time without attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptState {
    /// It runs, or is to be made.
    Running,
    /// The sink accepted the event.
    Accepted,
    /// It failed. The message is for the status: in our words, nothing of it is from the sink.
    Failed(String, Range<Timestamp>),
    /// It never began, since too many of our requests run. This says nothing about the sink.
    Postponed(Range<Timestamp>),
}

impl AttemptState {
    /// Returns until when there is no other attempt, if not at once. A clock that was put back ends the pause too.
    pub(crate) fn pause(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Running | Self::Accepted => None,
            Self::Failed(_, pause) | Self::Postponed(pause) => {
                pause.contains(&now).then_some(pause.end)
            }
        }
    }
}

/// Returns what changes when a Cleaner changes such that its targets must be looked at. Its status changes nothing of it.
pub(super) fn edition(metadata: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    let ObjectMeta {
        generation,
        finalizers,
        annotations,
        ..
    } = metadata;
    (generation, finalizers, annotations).hash(&mut hasher);
    hasher.finish()
}

impl Memory {
    /// Knows a Cleaner from now on.
    pub(super) fn know(&self, uid: &Arc<str>) {
        lock(&self.0).entry(Arc::clone(uid)).or_default();
    }

    /// Returns whether it knows a Cleaner.
    pub(super) fn knows(&self, uid: &str) -> bool {
        lock(&self.0).contains_key(uid)
    }

    /// Returns what is remembered of a Cleaner of this generation.
    pub(super) fn recall(&self, uid: &str, generation: Option<i64>) -> Recalled {
        let recalled = lock(&self.0).get(uid).cloned().unwrap_or_default();
        match recalled.generation == generation {
            true => recalled,
            false => Recalled {
                compiled: None,
                programs: None,
                ..recalled
            },
        }
    }

    /// Remembers what the compiler said of the conditions of this generation, and the programs if they are needed soon.
    pub(super) fn compiled(
        &self,
        uid: &str,
        generation: Option<i64>,
        verdict: Compiled,
        programs: Option<Arc<[Program]>>,
    ) {
        self.change(uid, |it| {
            it.generation = generation;
            it.programs = programs;
            it.compiled = Some(verdict);
        });
    }

    /// Remembers a look.
    pub(super) fn looked(&self, uid: &str, looked: Looked) {
        self.change(uid, |it| it.looked = Some(looked));
    }

    /// Remembers when objects were deleted.
    pub(super) fn attempted(&self, uid: &str, at: Timestamp) {
        self.change(uid, |it| it.attempted = Some(at));
    }

    /// Remembers an attempt to deliver the CloudEvent.
    pub(super) fn tried(&self, uid: &str, attempt: Attempt) {
        self.change(uid, |it| it.attempt = Some(attempt));
    }

    /// Returns how many events of targets have come.
    pub(super) fn events(&self, uid: &str) -> u64 {
        lock(&self.0).get(uid).map_or(0, |it| it.events)
    }

    /// Counts an event of a target.
    pub(super) fn event(&self, uid: &str) {
        self.change(uid, |it| it.events += 1);
    }

    /// Forgets a Cleaner that is gone.
    pub(super) fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }

    fn change(&self, uid: &str, change: impl FnOnce(&mut Recalled)) {
        if let Some(it) = lock(&self.0).get_mut(uid) {
            change(it);
        }
    }
}

/// A Cleaner. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CleanerId {
    /// Its namespace.
    pub(super) namespace: Arc<str>,
    /// Its name.
    pub(super) name: Arc<str>,
    /// Its UID.
    pub(super) uid: Arc<str>,
}

impl CleanerId {
    /// Returns the one with this metadata.
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        Self {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
        }
    }
}

/// Where Cleaners are woken. Cheap to clone.
#[derive(Clone)]
pub(super) struct Alarms {
    pub(super) memory: Memory,
    /// Wakes one.
    pub(super) wake: Arc<dyn Fn(&CleanerId) + Send + Sync>,
}

impl Alarms {
    /// Counts an event of a target of each Cleaner, and wakes them.
    pub(super) fn ring(&self, cleaners: &[CleanerId]) {
        for id in cleaners {
            self.memory.event(&id.uid);
            (self.wake)(id);
        }
    }
}

#[cfg(test)]
mod tests;
