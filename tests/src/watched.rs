//! A client that watches objects and records every change, since objects that failed are deleted soon.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use podloom_api::{Browser, Phase};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::wait::PATIENCE;

/// How long to wait before a broken watch is opened again: the API server takes seconds to start.
const RETRY: Duration = Duration::from_millis(200);

/// A change of an object.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It was created or changed; this is its new state.
    Is(K),
    /// It is gone; this was its last state.
    Gone(K),
}

impl<K> Change<K> {
    /// The object.
    pub fn object(&self) -> &K {
        match self {
            Self::Is(object) | Self::Gone(object) => object,
        }
    }
}

/// The changes that a client has seen since it started watching.
pub struct Watched<K> {
    changes: Arc<Mutex<Vec<Change<K>>>>,
    count: watch::Receiver<usize>,
    work: JoinHandle<()>,
}

/// An object of any kind.
pub trait Object: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static {}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static> Object for K {}

impl<K: Object> Watched<K> {
    /// Starts watching; objects that exist already are not reported until they change.
    pub async fn new(api: Api<K>) -> Self {
        let listed = api.list_metadata(&ListParams::default()).await.unwrap();
        let version = listed.metadata.resource_version.unwrap();
        let changes = Arc::new(Mutex::new(Vec::new()));
        let (sender, count) = watch::channel(0);
        let work = tokio::spawn(remember(api, version, Arc::clone(&changes), sender));
        Self {
            changes,
            count,
            work,
        }
    }

    /// All changes so far.
    pub fn changes(&self) -> Vec<Change<K>> {
        let changes = self.changes.lock();
        changes.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The changes of one object so far.
    pub fn of(&self, name: &str) -> Vec<Change<K>> {
        let mut changes = self.changes();
        changes.retain(|change| change.object().name_any() == name);
        changes
    }

    /// An object as it was last seen; none if it is gone.
    pub fn last(&self, name: &str) -> Option<K> {
        match self.of(name).pop()? {
            Change::Is(object) => Some(object),
            Change::Gone(_) => None,
        }
    }

    /// Whether there was an object of this name, and now there is none.
    pub fn is_gone(&self, name: &str) -> bool {
        is_gone(last(&self.changes(), name))
    }

    /// The UIDs of all objects with this name so far.
    pub fn uids(&self, name: &str) -> Vec<String> {
        let changes = self.of(name);
        let uids: BTreeSet<String> = changes.iter().filter_map(|it| it.object().uid()).collect();
        uids.into_iter().collect()
    }

    /// The UIDs of all objects so far, by those of their first owners, since names are reused. Warm pods have no owner yet.
    pub fn by_owner(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut owned: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for change in self.changes() {
            let object = change.object();
            let owner = object.owner_references().first();
            if let Some(owner) = owner.filter(|owner| owner.kind != "BrowserConfig") {
                let uids = owned.entry(owner.uid.clone()).or_default();
                uids.extend(object.uid());
            }
        }
        owned
    }

    /// Checks that no owner has ever had two.
    #[track_caller]
    pub fn are_single(&self) {
        let mut owned = self.by_owner();
        owned.retain(|_, uids| uids.len() > 1);
        assert!(owned.is_empty(), "{owned:#?}");
    }

    /// Waits until an object of this name was gone at some time.
    pub async fn was_gone(&self, name: &str) {
        let is_it = |it: &Change<K>| matches!(it, Change::Gone(it) if it.name_any() == name);
        self.until(&format!("{name} was gone"), |changes| {
            changes.iter().any(is_it).then_some(())
        })
        .await;
    }

    /// Waits until `answer` finds something in the changes.
    pub async fn until<T>(&self, what: &str, answer: impl FnMut(&[Change<K>]) -> Option<T>) -> T {
        self.until_within(what, PATIENCE, answer).await
    }

    /// Like [`Watched::until`], with another deadline.
    pub async fn until_within<T>(
        &self,
        what: &str,
        patience: Duration,
        mut answer: impl FnMut(&[Change<K>]) -> Option<T>,
    ) -> T {
        let mut count = self.count.clone();
        let asking = async {
            loop {
                count.borrow_and_update();
                {
                    let changes = self.changes.lock();
                    let changes = changes.unwrap_or_else(PoisonError::into_inner);
                    if let Some(answer) = answer(&changes) {
                        return answer;
                    }
                }
                assert!(count.changed().await.is_ok(), "the watch ended");
            }
        };
        match timeout(patience, asking).await {
            Ok(answer) => answer,
            Err(_) => panic!("{what}: not within {} s", patience.as_secs()),
        }
    }

    /// Waits until so many objects have changed, none of them is gone, and the last state of each fulfils a condition.
    pub async fn until_all(
        &self,
        count: usize,
        what: &str,
        patience: Duration,
        is: impl Fn(&K) -> bool,
    ) {
        self.until_within(what, patience, |changes| {
            let mut seen = HashSet::new();
            for change in changes.iter().rev() {
                let is_last = seen.insert(change.object().name_any());
                if is_last && !matches!(change, Change::Is(object) if is(object)) {
                    return None;
                }
            }
            (seen.len() == count).then_some(())
        })
        .await;
    }

    /// Waits until an object's last state fulfils a condition.
    pub async fn until_is(&self, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K {
        self.until(&format!("{name} {what}"), |changes| {
            match last(changes, name)? {
                Change::Is(object) if is(object) => Some(object.clone()),
                _ => None,
            }
        })
        .await
    }

    /// Waits until an object is gone.
    pub async fn until_away(&self, name: &str) {
        self.until(&format!("{name} is gone"), |changes| {
            is_gone(last(changes, name)).then_some(())
        })
        .await;
    }
}

fn last<'c, K: Object>(changes: &'c [Change<K>], name: &str) -> Option<&'c Change<K>> {
    changes.iter().rfind(|it| it.object().name_any() == name)
}

fn is_gone<K>(last: Option<&Change<K>>) -> bool {
    matches!(last, Some(Change::Gone(_)))
}

impl Watched<Browser> {
    /// Waits until a Browser runs.
    pub async fn until_runs(&self, name: &str) -> Browser {
        let runs = |browser: &Browser| phase(browser) == Some(Phase::Running);
        self.until_is(name, "runs", runs).await
    }

    /// Waits until a Browser is gone, and returns its [`Watched::story`].
    pub async fn until_gone(&self, name: &str) -> Vec<String> {
        self.until_away(name).await;
        self.story(name)
    }

    /// The phases of a Browser so far, each with reason and message, without repetitions.
    pub fn story(&self, name: &str) -> Vec<String> {
        let mut story: Vec<String> = self.of(name).iter().filter_map(story_line).collect();
        story.dedup();
        story
    }
}

fn phase(browser: &Browser) -> Option<Phase> {
    browser.status.as_ref()?.phase
}

/// `None` for a Browser that has no phase yet.
fn story_line(change: &Change<Browser>) -> Option<String> {
    let browser = match change {
        Change::Is(browser) => browser,
        Change::Gone(_) => return Some("gone".to_owned()),
    };
    let status = browser.status.as_ref()?;
    let phase = status.phase?.as_str();
    let reason = status.reason.as_deref();
    let message = status.message.as_deref();
    Some(match (reason, message) {
        (None, None) => phase.to_owned(),
        (reason, message) => {
            let (reason, message) = (reason.unwrap_or("-"), message.unwrap_or("-"));
            format!("{phase} {reason}: {message}")
        }
    })
}

impl<K> Drop for Watched<K> {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// Watches for ever. When the API server stops and comes back, it continues where it was.
async fn remember<K: Object>(
    api: Api<K>,
    version: String,
    changes: Arc<Mutex<Vec<Change<K>>>>,
    count: watch::Sender<usize>,
) {
    let mut version = version;
    loop {
        let Ok(events) = api.watch(&WatchParams::default(), &version).await else {
            sleep(RETRY).await;
            continue;
        };
        let mut events = pin!(events);
        while let Some(Ok(event)) = events.next().await {
            let change = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => Change::Is(object),
                WatchEvent::Deleted(object) => Change::Gone(object),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                // The missed changes are lost. Dropping the sender makes the waiting test fail.
                WatchEvent::Error(_) => return,
            };
            if let Some(seen) = change.object().resource_version() {
                version = seen;
            }
            let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.push(change);
            count.send_replace(changes.len());
        }
    }
}
