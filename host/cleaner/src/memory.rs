//! What the process remembers of each Cleaner. After a restart nothing of it is needed: each Cleaner is then looked at once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
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
pub(super) struct Memory(Arc<Mutex<HashMap<Arc<str>, Remembered>>>);

#[derive(Default)]
struct Remembered {
    compilation: Option<Compilation>,
    looked: Option<Looked>,
    events: u64,
    attempted: Option<Timestamp>,
}

/// The conditions of one generation.
struct Compilation {
    generation: Option<i64>,
    verdict: Compiled,
    /// None while they are not needed: thousands of Cleaners may wait for their time.
    programs: Option<Arc<[Program]>>,
}

/// What the compiler says of the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compiled {
    /// All compile.
    Fine,
    /// These do not.
    Failed(Arc<[Failure]>),
}

/// The last look at the targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Looked {
    /// When it was.
    pub(super) at: Timestamp,
    /// The Cleaner as it was.
    #[serde(skip)]
    pub(super) edition: Edition,
    /// How many events of targets had come before.
    #[serde(skip)]
    pub(super) events: u64,
    /// When the next look is due, unless something changes before.
    pub(super) due: Timestamp,
}

/// What changes when a Cleaner changes such that its targets must be looked at. Its status changes nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Edition(u64);

/// What is remembered of one Cleaner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recalled {
    /// What the compiler says of the conditions of this generation.
    pub(super) compiled: Option<Compiled>,
    /// The last look at the targets.
    pub(super) looked: Option<Looked>,
    /// How many events of targets have come.
    pub(super) events: u64,
    /// When objects were last deleted.
    pub(super) attempted: Option<Timestamp>,
}

impl Edition {
    /// Returns that of a Cleaner.
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let mut hasher = DefaultHasher::new();
        let ObjectMeta {
            generation,
            finalizers,
            annotations,
            ..
        } = metadata;
        (generation, finalizers, annotations).hash(&mut hasher);
        Self(hasher.finish())
    }
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
        let all = lock(&self.0);
        let Some(it) = all.get(uid) else {
            return Recalled::default();
        };
        let compilation = it.compilation.as_ref();
        let compilation = compilation.filter(|it| it.generation == generation);
        Recalled {
            compiled: compilation.map(|it| it.verdict.clone()),
            looked: it.looked.clone(),
            events: it.events,
            attempted: it.attempted,
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
            it.compilation = Some(Compilation {
                generation,
                verdict,
                programs,
            });
        });
    }

    /// Returns the programs of this generation.
    pub(super) fn programs(&self, uid: &str, generation: Option<i64>) -> Option<Arc<[Program]>> {
        let all = lock(&self.0);
        let compilation = all.get(uid)?.compilation.as_ref()?;
        let programs = compilation.programs.as_ref();
        programs
            .filter(|_| compilation.generation == generation)
            .map(Arc::clone)
    }

    /// Remembers a look.
    pub(super) fn looked(&self, uid: &str, looked: Looked) {
        self.change(uid, |it| it.looked = Some(looked));
    }

    /// Remembers when objects were deleted.
    pub(super) fn attempted(&self, uid: &str, at: Timestamp) {
        self.change(uid, |it| it.attempted = Some(at));
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

    fn change(&self, uid: &str, change: impl FnOnce(&mut Remembered)) {
        if let Some(it) = lock(&self.0).get_mut(uid) {
            change(it);
        }
    }
}
