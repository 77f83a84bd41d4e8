//! Watches of the kinds of targets: one for each kind, of metadata only, as long as a Cleaner uses it. Nothing of what they show is kept.
//!
//! If all namespaces are watched and the operator may not watch a kind in all of them, it is watched in each namespace that is used.
//! Where that is forbidden too, Cleaners go by their period alone, and say so.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures::StreamExt;
use kube::core::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use podloom_engine::broken::Seldom;
use podloom_engine::kind::ResourceScope;
use podloom_engine::plain::plain;
use podloom_engine::watch::{paced, watch_config, watch_events};
use podloom_turns::lock;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::discovery::{KindKey, ServedKind};
use crate::index::{Index, Interest, Place, SeenObject};
use crate::memory::{Alarms, CleanerId};
use crate::metrics::CleanerMetrics;

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
        Self(Arc::new(Inner {
            client,
            alarms,
            metrics,
            state: Mutex::new(State {
                index: Index::default(),
                kinds: Kinds::new(is_wide),
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
        for (kind, ((_, namespace), _)) in wishes {
            let starts = kinds.add(kind, namespace, &id.uid);
            kinds.start(starts, |watched| run(Arc::downgrade(&self.0), watched));
        }
        for place in before.difference(&after) {
            kinds.remove(place, &id.uid);
        }
        let count = i64::try_from(kinds.count()).unwrap_or(i64::MAX);
        self.0.metrics.watched.set(count);
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
    fn answered(self: &Arc<Self>, kind: &KindKey, namespace: &Option<Arc<str>>, answer: Answer) {
        let mut state = lock(&self.state);
        let State { index, kinds } = &mut *state;
        let starts = kinds.answered(kind, namespace, answer);
        kinds.start(starts, |watched| run(Arc::downgrade(self), watched));
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

/// What the API server says to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Nothing yet.
    Pending,
    /// It shows what changes.
    Watching,
    /// The operator has no right to watch, or the kind cannot be watched.
    Forbidden,
}

/// A watch to start: its kind, and its namespace if it is for one.
type Watched = (Arc<ServedKind>, Option<Arc<str>>);

/// Which kinds are watched where, by whom, and what the API server says to it.
struct Kinds {
    /// Whether the operator works in all namespaces: then a kind has one watch, if that is allowed. Else it has one for each namespace that
    /// is used.
    is_wide: bool,
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
    /// By their namespaces; none for all of them.
    watches: BTreeMap<Option<Arc<str>>, Running>,
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
    fn new(is_wide: bool) -> Self {
        Self {
            is_wide,
            kinds: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Returns how many kinds are watched.
    fn count(&self) -> usize {
        self.kinds.len()
    }

    /// Adds a user, and returns the watches to start for it.
    fn add(
        &mut self,
        served: &Arc<ServedKind>,
        namespace: &Arc<str>,
        uid: &Arc<str>,
    ) -> Vec<Watched> {
        let kind = self.kinds.entry(served.key()).or_insert_with(|| Kind {
            served: Arc::clone(served),
            users: BTreeMap::new(),
            told: BTreeMap::new(),
            watches: BTreeMap::new(),
        });
        let users = kind.users.entry(Arc::clone(namespace)).or_default();
        users.insert(Arc::clone(uid));
        kind.lacking(self.is_wide)
    }

    /// Removes a user. What nobody uses any more ends.
    fn remove(&mut self, (key, namespace): &Place, uid: &Arc<str>) {
        let Some(kind) = self.kinds.get_mut(key) else {
            return;
        };
        if let Some(users) = kind.users.get_mut(namespace) {
            users.remove(uid);
            if users.is_empty() {
                kind.users.remove(namespace);
                kind.told.remove(namespace);
                kind.watches.remove(&Some(Arc::clone(namespace)));
            }
        }
        if kind.users.is_empty() {
            self.kinds.remove(key);
        }
    }

    /// Starts watches.
    fn start<F>(&mut self, watches: Vec<Watched>, run: impl Fn(Watched) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Those that have ended.
        while self.tasks.try_join_next().is_some() {}
        for watched in watches {
            let (key, namespace) = (watched.0.key(), watched.1.clone());
            let task = self.tasks.spawn(run(watched));
            match self.running(&key, &namespace) {
                Some(running) => running.task = Some(task),
                None => task.abort(),
            }
        }
    }

    /// Puts down an answer, and returns the watches to start because of it.
    fn answered(
        &mut self,
        key: &KindKey,
        namespace: &Option<Arc<str>>,
        answer: Answer,
    ) -> Vec<Watched> {
        if let Some(running) = self.running(key, namespace) {
            running.answer = answer;
        }
        let is_wide = self.is_wide;
        let Some(kind) = self.kinds.get_mut(key) else {
            return Vec::new();
        };
        if kind.asked(None) == Some(Answer::Watching) {
            kind.watches.retain(|namespace, _| namespace.is_none());
        }
        kind.lacking(is_wide)
    }

    /// Returns what the API server says to the watch that shows the objects of a place.
    fn answer(&self, (key, namespace): &Place) -> Answer {
        let kind = self.kinds.get(key);
        kind.map_or(Answer::Pending, |kind| kind.answer(namespace))
    }

    /// Returns the same, and remembers that it was told.
    fn tell(&mut self, (key, namespace): &Place) -> Answer {
        let Some(kind) = self.kinds.get_mut(key) else {
            return Answer::Pending;
        };
        let answer = kind.answer(namespace);
        kind.told.insert(Arc::clone(namespace), answer);
        answer
    }

    /// Returns the places of a kind for which something else was told than what holds now.
    fn surprises(&mut self, key: &KindKey) -> Vec<Place> {
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

    fn running(&mut self, key: &KindKey, of: &Option<Arc<str>>) -> Option<&mut Running> {
        self.kinds.get_mut(key)?.watches.get_mut(of)
    }
}

impl Kind {
    /// What the API server says to the watch of a namespace, or of all.
    fn asked(&self, of: Option<&Arc<str>>) -> Option<Answer> {
        let watch = self.watches.get(&of.cloned());
        watch.map(|watch| watch.answer)
    }

    fn answer(&self, namespace: &Arc<str>) -> Answer {
        match (self.asked(None), self.asked(Some(namespace))) {
            (Some(Answer::Watching), _) => Answer::Watching,
            (_, Some(narrow)) => narrow,
            (Some(wide), None) => wide,
            (None, None) => Answer::Pending,
        }
    }

    /// Makes places for the watches that it needs and does not have, and returns them.
    fn lacking(&mut self, is_wide: bool) -> Vec<Watched> {
        let is_in_namespaces = self.served.scope == ResourceScope::Namespaced;
        let is_wide = is_wide || !is_in_namespaces;
        let mut needed = Vec::from_iter(is_wide.then_some(None));
        let is_narrow = !is_wide || self.asked(None) == Some(Answer::Forbidden);
        if is_narrow && is_in_namespaces {
            needed.extend(self.users.keys().cloned().map(Some));
        }
        needed.retain(|of| !self.watches.contains_key(of));
        let watches = needed.iter().map(|of| (of.clone(), Running::new()));
        self.watches.extend(watches);
        let watched = |of| (Arc::clone(&self.served), of);
        needed.into_iter().map(watched).collect()
    }
}

/// An object of which only the metadata is known.
type Meta = PartialObjectMeta<DynamicObject>;

/// Watches until it is dropped, or nobody is left to tell.
async fn run(inner: Weak<Inner>, watched: Watched) {
    let Some(client) = inner.upgrade().map(|inner| inner.client.clone()) else {
        return;
    };
    let (kind, namespace) = watched;
    let key = kind.key();
    let broke = on_error(inner.clone(), key.clone(), namespace.clone());
    let events = watch_events(
        api(paced(&client), &kind.resource, namespace.as_deref()),
        watch_config(),
        |_| {},
        broke,
    );
    let mut events = std::pin::pin!(events);
    // The objects of the list that somebody has seen before.
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        let (Ok(event), Some(inner)) = (event, inner.upgrade()) else {
            continue;
        };
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                let place = place(&key, &object.metadata);
                if lock(&inner.state)
                    .index
                    .is_seen(&place, name(&object.metadata))
                {
                    listed.insert((Arc::clone(&place.1), name(&object.metadata).to_owned()));
                }
                inner.changed(&place, &object.metadata);
            }
            Event::InitDone => {
                let there = std::mem::take(&mut listed);
                let missing = lock(&inner.state)
                    .index
                    .missing(&key, namespace.as_deref(), &there);
                inner.alarms.ring(&missing);
                inner.answered(&key, &namespace, Answer::Watching);
            }
            Event::Apply(object) | Event::Delete(object) => {
                inner.changed(&place(&key, &object.metadata), &object.metadata);
            }
        }
    }
}

fn api(client: Client, resource: &ApiResource, namespace: Option<&str>) -> Api<Meta> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

fn place(kind: &KindKey, object: &ObjectMeta) -> Place {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    (kind.clone(), Arc::from(namespace))
}

fn name(object: &ObjectMeta) -> &str {
    object.name.as_deref().unwrap_or_default()
}

/// Returns what happens with an error. The watch is tried again after a while.
fn on_error(
    inner: Weak<Inner>,
    kind: KindKey,
    namespace: Option<Arc<str>>,
) -> impl Fn(&watcher::Error) + Send {
    let seldom = Seldom::default();
    move |error| {
        let namespace_name = namespace.as_deref();
        match code(error) {
            // The operator has no right to watch, or the kind has no watches.
            Some(401 | 403 | 405) => {
                tracing::debug!(%kind, namespace = namespace_name, "targets may not be watched");
                if let Some(inner) = inner.upgrade() {
                    inner.answered(&kind, &namespace, Answer::Forbidden);
                }
            }
            // It is tried again until the next look finds the same.
            Some(404) => {
                tracing::debug!(%kind, namespace = namespace_name, "kind of targets is not served");
            }
            _ => {
                if let Some(left_out) = seldom.is_due() {
                    tracing::warn!(
                        %kind,
                        namespace = namespace_name,
                        error = plain(error),
                        left_out,
                        "watch of targets broke, restarting"
                    );
                }
            }
        }
    }
}

/// The HTTP status of the API server's answer, if there is one.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
