//! One workload, as it is now: what controls pods, and those pods.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::core::Selector;
use podloom_api::names::annotation;
use podloom_engine::plain::plain;
use podloom_mutation::{NamespaceMetadata, texts};
use podloom_webhook::{OwnerKind, pod_maker};
use serde_json::Value;
use tokio::time::timeout;

use super::Next;
use crate::drift::{Need, Owner, Pod};
use crate::evict::{Target, ignores_evictions};
use crate::lists::{self, Objects, Pages, Place, Trouble};
use crate::manifest::metadata;

/// How long reading an object, and all pods of a workload, may take.
const GET_TIME: Duration = Duration::from_secs(5);
const LIST_TIME: Duration = Duration::from_secs(30);

/// What controls pods.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) namespace: String,
    pub(crate) owner: Owner,
    /// How many of its pods should be replaced, when it was found.
    pub(crate) pods: u64,
}

/// A workload, as it is now.
pub(super) enum State {
    /// It is gone, or will be.
    Gone,
    /// Its pods are not to be evicted.
    Left(&'static str),
    Live(Box<Pods>),
}

/// What matters of the pods of a workload, however many they are.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// How many should be ready, as its controller says, and are not.
    missing: u64,
    /// A pod that is being deleted.
    leaving: Option<String>,
    /// A pod that needs nothing, and is not ready.
    new: Option<String>,
    /// How many should be replaced, and how many of these are not ready.
    needing: u64,
    needing_unready: u64,
    /// The one that is replaced first.
    first: Option<(Rank, Target, Need)>,
}

/// Which pod is replaced first: one that is not ready, then the most urgent one, then the oldest one.
type Rank = (bool, Need, Option<Timestamp>, String);

/// A namespace, as it is now.
pub(super) struct About {
    pub(super) metadata: NamespaceMetadata,
    /// Whether its pods are not to be evicted.
    pub(super) is_left: bool,
}

impl Workload {
    /// What controls this pod.
    pub(super) fn of(pod: Target) -> Self {
        Self {
            namespace: pod.namespace,
            owner: pod.owner,
            pods: 0,
        }
    }

    pub(super) fn id(&self) -> [&str; 2] {
        [&self.namespace, &self.owner.uid]
    }

    /// For people, and to sort by.
    pub(crate) fn name(&self) -> String {
        let Owner { kind, name, .. } = &self.owner;
        format!("{kind} {}/{name}", self.namespace)
    }

    /// For Events.
    pub(crate) fn reference(&self) -> ObjectReference {
        let Owner {
            api_version,
            kind,
            name,
            uid,
        } = self.owner.clone();
        ObjectReference {
            api_version: Some(api_version),
            kind: Some(kind),
            namespace: Some(self.namespace.clone()),
            name: Some(name),
            uid: Some(uid),
            ..ObjectReference::default()
        }
    }

    /// Reads the workload and its pods. The function says which of them need it.
    pub(super) async fn read(
        &self,
        client: &Client,
        others: &[OwnerKind],
        need: impl Fn(&Pod<'_>) -> Option<Need>,
    ) -> Result<State, String> {
        let Owner {
            api_version,
            kind,
            name,
            uid,
        } = &self.owner;
        let Some(resource) = pod_maker(api_version, kind, others) else {
            return Ok(State::Gone);
        };
        let place = Place::new(&resource.api_version, &resource.plural).within(&self.namespace);
        let Some(object) = get(&place, client, name).await? else {
            return Ok(State::Gone);
        };
        if metadata(&object, "uid") != uid || !metadata(&object, "deletionTimestamp").is_empty() {
            return Ok(State::Gone);
        }
        if is_left(&object) {
            return Ok(State::Left("its annotation podloom.dev/heal says so"));
        }
        if self.owner.is("batch", "Job") && !job_goes_on(&object) {
            return Ok(State::Left(
                "a Job counts an evicted pod as failed, unless its podFailurePolicy ignores DisruptionTarget",
            ));
        }
        let mut pods = Pods {
            missing: missing(&object),
            ..Pods::default()
        };
        let mut place = Place::new("v1", "pods").within(&self.namespace);
        place.labels = selector(&object);
        let reading = async {
            let mut listed = Objects::of(Pages::of(client, &place));
            while let Some(pod) = listed.next().await? {
                let Some(pod) = lists::read(&pod) else {
                    continue;
                };
                let pod = Pod(&pod);
                if pod.owner().uid == *uid {
                    pods.add(&pod, need(&pod));
                }
            }
            Ok(())
        };
        match timeout(LIST_TIME, reading).await {
            Ok(Ok(())) => Ok(State::Live(Box::new(pods))),
            Ok(Err(trouble)) => Err(words(trouble)),
            Err(_) => Err(format!("its pods could not be read within {LIST_TIME:?}")),
        }
    }
}

impl Pods {
    fn add(&mut self, pod: &Pod<'_>, need: Option<Need>) {
        let name = || pod.name().to_owned();
        if pod.is_being_deleted() {
            self.leaving.get_or_insert_with(name);
            return;
        }
        if pod.is_over() {
            return;
        }
        let is_ready = pod.is_ready();
        let Some(need) = need else {
            if !is_ready {
                self.new.get_or_insert_with(name);
            }
            return;
        };
        self.needing += 1;
        self.needing_unready += u64::from(!is_ready);
        let rank = (is_ready, need, pod.created(), name());
        if self.first.as_ref().is_none_or(|(first, ..)| rank < *first) {
            self.first = Some((rank, Target::of(pod), need));
        }
    }

    /// What to do about them, if so many needed it before the last one was evicted.
    pub(super) fn next(self, before: Option<u64>) -> Next {
        let is_again = before.is_some_and(|before| self.needing >= before);
        match (self.leaving, self.new, self.first) {
            (Some(pod), ..) => Next::Wait(format!("pod {pod} is being deleted"), false),
            (_, Some(pod), _) => Next::Wait(format!("pod {pod} is not ready"), true),
            _ if is_again => Next::Again,
            (.., None) if self.missing == 0 => Next::Healed,
            _ if self.missing > self.needing_unready => {
                let missing = self.missing - self.needing_unready;
                Next::Wait(
                    format!("{missing} of its pods are not there or not ready"),
                    false,
                )
            }
            (.., Some((_, target, need))) => Next::Evict(target, need, self.needing),
            (.., None) => Next::Healed,
        }
    }
}

/// A namespace; none if it is gone, or will be.
pub(super) async fn namespace(client: &Client, name: &str) -> Result<Option<About>, String> {
    let place = Place::new("v1", "namespaces");
    let found = get(&place, client, name).await?;
    let found = found.filter(|it| metadata(it, "deletionTimestamp").is_empty());
    Ok(found.map(|namespace| About {
        is_left: is_left(&namespace),
        metadata: NamespaceMetadata {
            labels: texts(&namespace, "labels"),
            ..NamespaceMetadata::default()
        },
    }))
}

async fn get(place: &Place, client: &Client, name: &str) -> Result<Option<Value>, String> {
    match timeout(GET_TIME, place.get(client, name)).await {
        Ok(Ok(object)) => Ok(Some(object)),
        Ok(Err(Trouble::NotServed)) => Ok(None),
        Ok(Err(trouble)) => Err(words(trouble)),
        Err(_) => Err(format!("it could not be read within {GET_TIME:?}")),
    }
}

fn words(trouble: Trouble) -> String {
    match trouble {
        Trouble::NotServed => "the API server does not serve it".to_owned(),
        Trouble::Forbidden(message) => message,
        Trouble::Other(error) => plain(&error),
    }
}

fn is_left(object: &Value) -> bool {
    let says = texts(object, "annotations");
    says.get(annotation::HEAL).map(String::as_str) == Some("false")
}

fn job_goes_on(job: &Value) -> bool {
    serde_json::from_value(job.clone()).is_ok_and(|job| ignores_evictions(&job))
}

/// How many pods should be ready, as the controller of Kubernetes says, and are not.
fn missing(object: &Value) -> u64 {
    let number = |path: &str| object.pointer(path).and_then(Value::as_u64);
    let is_daemon = object["kind"] == "DaemonSet";
    let (wanted, ready) = match is_daemon {
        true => ("/status/desiredNumberScheduled", "/status/numberReady"),
        false => ("/spec/replicas", "/status/readyReplicas"),
    };
    let ready = number(ready).unwrap_or_default();
    number(wanted).unwrap_or_default().saturating_sub(ready)
}

/// By which labels a workload finds its pods; none if it does not say that.
fn selector(object: &Value) -> Option<String> {
    let selector = object.pointer("/spec/selector")?;
    // That of a ReplicationController is only labels.
    let selector = match object["kind"] == "ReplicationController" {
        true => LabelSelector {
            match_labels: serde_json::from_value(selector.clone()).ok(),
            ..LabelSelector::default()
        },
        false => serde_json::from_value(selector.clone()).ok()?,
    };
    Some(Selector::try_from(selector).ok()?.to_string())
}

#[cfg(test)]
mod tests;
