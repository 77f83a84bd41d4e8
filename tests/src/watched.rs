//! A client that watches objects and remembers all it saw, since objects that failed do not stay.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use podloom_api::{Browser, Phase};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::wait::PATIENCE;

/// How long a watch that broke stays so: the API server needs seconds to start.
const BROKEN: Duration = Duration::from_millis(200);

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It is new, or now like this.
    Is(K),
    /// It is gone; this is how it was last.
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

/// What a watching client has seen since it began.
pub struct Watched<K> {
    changes: Arc<Mutex<Vec<Change<K>>>>,
    count: watch::Receiver<usize>,
    work: JoinHandle<()>,
}

impl<K> Watched<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Begins after what there is now.
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

    /// All that was seen so far.
    pub fn changes(&self) -> Vec<Change<K>> {
        let changes = self.changes.lock();
        changes.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was seen of one object.
    pub fn of(&self, name: &str) -> Vec<Change<K>> {
        let mut changes = self.changes();
        changes.retain(|change| change.object().name_any() == name);
        changes
    }

    /// Waits until what was seen holds the answer.
    pub async fn until<T>(&self, what: &str, answer: impl FnMut(&[Change<K>]) -> Option<T>) -> T {
        self.until_within(what, PATIENCE, answer).await
    }

    /// As [`Watched::until`], with a patience of one's own.
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

    /// Waits until an object is such.
    pub async fn until_is(&self, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K {
        self.until(&format!("{name} {what}"), |changes| {
            let last = changes
                .iter()
                .rfind(|change| change.object().name_any() == name)?;
            match last {
                Change::Is(object) if is(object) => Some(object.clone()),
                _ => None,
            }
        })
        .await
    }
}

impl Watched<Browser> {
    /// Waits until a Browser runs.
    pub async fn until_runs(&self, name: &str) -> Browser {
        let runs = |browser: &Browser| phase(browser) == Some(Phase::Running);
        self.until_is(name, "runs", runs).await
    }

    /// Waits until a Browser is gone, and returns what a client saw of it: its phases, each with reason and message.
    pub async fn until_gone(&self, name: &str) -> Vec<String> {
        let is_gone = |changes: &[Change<Browser>]| {
            let of_name = |change: &&Change<Browser>| change.object().name_any() == name;
            let last = changes.iter().rfind(of_name)?;
            matches!(last, Change::Gone(_)).then_some(())
        };
        self.until(&format!("{name} is gone"), is_gone).await;
        self.story(name)
    }

    /// What a client saw of a Browser so far; the same thing twice is told once.
    pub fn story(&self, name: &str) -> Vec<String> {
        let mut story: Vec<String> = self.of(name).iter().filter_map(told).collect();
        story.dedup();
        story
    }
}

fn phase(browser: &Browser) -> Option<Phase> {
    browser.status.as_ref()?.phase
}

/// None for a Browser without a phase, which every one begins as.
fn told(change: &Change<Browser>) -> Option<String> {
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

impl Watched<Pod> {
    /// The UIDs of the pods of a name that there ever were.
    pub fn uids(&self, name: &str) -> Vec<String> {
        let mut uids: Vec<String> = self
            .of(name)
            .iter()
            .filter_map(|change| change.object().uid())
            .collect();
        uids.sort_unstable();
        uids.dedup();
        uids
    }

    /// Waits until a pod is gone.
    pub async fn until_pod_gone(&self, name: &str) {
        self.until(&format!("pod {name} is gone"), |changes| {
            let last = changes
                .iter()
                .rfind(|change| change.object().name_any() == name)?;
            matches!(last, Change::Gone(_)).then_some(())
        })
        .await;
    }
}

impl<K> Drop for Watched<K> {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// Watches for ever, from where it was when the API server goes and comes back.
async fn remember<K>(
    api: Api<K>,
    version: String,
    changes: Arc<Mutex<Vec<Change<K>>>>,
    count: watch::Sender<usize>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let mut version = version;
    loop {
        let Ok(events) = api.watch(&WatchParams::default(), &version).await else {
            sleep(BROKEN).await;
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
                // What was missed cannot be had any more, so the waiting test fails: the sender goes.
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
