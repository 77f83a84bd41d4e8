//! Which kinds are watched where, by whom, and what the API server says to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use podloom_engine::kind::ResourceScope;
use tokio::task::{AbortHandle, JoinSet};

use super::Place;
use crate::served::{KindKey, ServedKind};

/// In which namespaces the operator works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// In all: a kind has one watch, if that is allowed.
    AllNamespaces,
    /// In some: a kind has one watch for each that is used.
    EachNamespace,
}

/// What the API server says to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing yet.
    Pending,
    /// It shows what changes.
    Watching,
    /// The operator has no right to watch, or the kind cannot be watched.
    Forbidden,
}

/// A watch to start: its kind, and its namespace if it is for one.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) kind: Arc<ServedKind>,
    pub(super) namespace: Option<Arc<str>>,
}

/// All kinds that are watched.
pub(super) struct Kinds {
    reach: Reach,
    kinds: HashMap<KindKey, Kind>,
    /// Ends the watches when it is dropped.
    tasks: JoinSet<()>,
}

struct Kind {
    served: Arc<ServedKind>,
    /// The UIDs of the Cleaners that use it, by namespace.
    users: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// What was last told to those of a namespace.
    told: BTreeMap<Arc<str>, Answer>,
    wide: Option<Running>,
    narrow: BTreeMap<Arc<str>, Running>,
}

/// A watch that runs. It ends when this is dropped.
struct Running {
    answer: Answer,
    task: Option<AbortHandle>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Running {
    const fn new() -> Self {
        Self {
            answer: Answer::Pending,
            task: None,
        }
    }
}

impl Kinds {
    pub(super) fn new(reach: Reach) -> Self {
        Self {
            reach,
            kinds: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Returns how many kinds are watched.
    pub(super) fn count(&self) -> usize {
        self.kinds.len()
    }

    /// Adds a user, and returns the watches to start for it.
    pub(super) fn add(
        &mut self,
        served: &Arc<ServedKind>,
        namespace: &Arc<str>,
        uid: &Arc<str>,
    ) -> Vec<Watched> {
        let kind = self.kinds.entry(served.key()).or_insert_with(|| Kind {
            served: Arc::clone(served),
            users: BTreeMap::new(),
            told: BTreeMap::new(),
            wide: None,
            narrow: BTreeMap::new(),
        });
        let users = kind.users.entry(Arc::clone(namespace)).or_default();
        users.insert(Arc::clone(uid));
        kind.lacking(self.reach)
    }

    /// Removes a user. What nobody uses any more ends.
    pub(super) fn remove(&mut self, (key, namespace): &Place, uid: &Arc<str>) {
        let Some(kind) = self.kinds.get_mut(key) else {
            return;
        };
        if let Some(users) = kind.users.get_mut(namespace) {
            users.remove(uid);
            if users.is_empty() {
                kind.users.remove(namespace);
                kind.told.remove(namespace);
                kind.narrow.remove(namespace);
            }
        }
        if kind.users.is_empty() {
            self.kinds.remove(key);
        }
    }

    /// Starts watches.
    pub(super) fn start<F>(&mut self, watches: Vec<Watched>, run: impl Fn(Watched) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Those that have ended.
        while self.tasks.try_join_next().is_some() {}
        for watched in watches {
            let key = watched.kind.key();
            let namespace = watched.namespace.clone();
            let task = self.tasks.spawn(run(watched));
            match self.running(&key, namespace.as_ref()) {
                Some(running) => running.task = Some(task),
                None => task.abort(),
            }
        }
    }

    /// Puts down an answer, and returns the watches to start because of it.
    pub(super) fn answered(
        &mut self,
        key: &KindKey,
        namespace: Option<&Arc<str>>,
        answer: Answer,
    ) -> Vec<Watched> {
        if let Some(running) = self.running(key, namespace) {
            running.answer = answer;
        }
        let reach = self.reach;
        let Some(kind) = self.kinds.get_mut(key) else {
            return Vec::new();
        };
        if kind.wide_answer() == Some(Answer::Watching) {
            kind.narrow.clear();
        }
        kind.lacking(reach)
    }

    /// Returns what the API server says to the watch that shows the objects of a place.
    pub(super) fn answer(&self, (key, namespace): &Place) -> Answer {
        let kind = self.kinds.get(key);
        kind.map_or(Answer::Pending, |kind| kind.answer(namespace))
    }

    /// Returns the same, and remembers that it was told.
    pub(super) fn tell(&mut self, (key, namespace): &Place) -> Answer {
        let Some(kind) = self.kinds.get_mut(key) else {
            return Answer::Pending;
        };
        let answer = kind.answer(namespace);
        kind.told.insert(Arc::clone(namespace), answer);
        answer
    }

    /// Returns the places of a kind for which something else was told than what holds now.
    pub(super) fn surprises(&mut self, key: &KindKey) -> Vec<Place> {
        let Some(kind) = self.kinds.get_mut(key) else {
            return Vec::new();
        };
        let is_forbidden = |answer: Answer| answer == Answer::Forbidden;
        let changed = kind.told.iter().filter(|(namespace, told)| {
            is_forbidden(**told) != is_forbidden(kind.answer(namespace))
        });
        let changed: Vec<Arc<str>> = changed
            .map(|(namespace, _)| Arc::clone(namespace))
            .collect();
        for namespace in &changed {
            kind.told.remove(namespace);
        }
        changed
            .into_iter()
            .map(|namespace| (key.clone(), namespace))
            .collect()
    }

    fn running(&mut self, key: &KindKey, namespace: Option<&Arc<str>>) -> Option<&mut Running> {
        let kind = self.kinds.get_mut(key)?;
        match namespace {
            None => kind.wide.as_mut(),
            Some(namespace) => kind.narrow.get_mut(namespace),
        }
    }
}

impl Kind {
    fn wide_answer(&self) -> Option<Answer> {
        self.wide.as_ref().map(|wide| wide.answer)
    }

    fn answer(&self, namespace: &Arc<str>) -> Answer {
        let narrow = self.narrow.get(namespace).map(|narrow| narrow.answer);
        match (self.wide_answer(), narrow) {
            (Some(Answer::Watching), _) => Answer::Watching,
            (_, Some(narrow)) => narrow,
            (Some(wide), None) => wide,
            (None, None) => Answer::Pending,
        }
    }

    /// Makes places for the watches that it needs and does not have, and returns them.
    fn lacking(&mut self, reach: Reach) -> Vec<Watched> {
        let is_in_namespaces = self.served.scope == ResourceScope::Namespaced;
        let is_wide = reach == Reach::AllNamespaces || !is_in_namespaces;
        let mut lacking = Vec::new();
        if is_wide && self.wide.is_none() {
            self.wide = Some(Running::new());
            lacking.push(None);
        }
        let is_narrow = !is_wide || self.wide_answer() == Some(Answer::Forbidden);
        if is_narrow && is_in_namespaces {
            for namespace in self.users.keys() {
                if !self.narrow.contains_key(namespace) {
                    self.narrow.insert(Arc::clone(namespace), Running::new());
                    lacking.push(Some(Arc::clone(namespace)));
                }
            }
        }
        let watched = |namespace| Watched {
            kind: Arc::clone(&self.served),
            namespace,
        };
        lacking.into_iter().map(watched).collect()
    }
}
