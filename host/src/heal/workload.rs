//! One workload, as it is now: what controls pods, and those pods.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::PodFailurePolicy;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::Client;
use kube::core::Selector;
use podloom_mutation::NamespaceMetadata;
use podloom_webhook::{OwnerKind, pod_maker};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::{Next, Wait};
use crate::drift::{Need, Owner, Pod};
use crate::evict::{Target, goes_on};
use crate::lists::{self, Objects, Pages, Place, Trouble};

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
    /// How many should be there, and how many of them are not ready, as its controller says. It may be late.
    wanted: u64,
    missing: u64,
    /// How many are ready, as they say themselves.
    ready: u64,
    /// The UID of what controls the workload itself.
    pub(super) parent: Option<String>,
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
        let object: Object = match get(&place, client, name).await? {
            Got::Object(object) => object,
            Got::Gone => return Ok(State::Gone),
            Got::TooLong => return Ok(State::Left("it is too large to be read")),
        };
        let metadata = &object.metadata;
        if metadata.uid != *uid || metadata.deletion_timestamp.is_some() {
            return Ok(State::Gone);
        }
        if metadata.is_left() {
            return Ok(State::Left("its annotation podloom.dev/heal says so"));
        }
        if self.owner.is("batch", "Job") && !goes_on(object.spec.pod_failure_policy.as_ref()) {
            return Ok(State::Left(
                "a Job counts an evicted pod as failed, unless its podFailurePolicy ignores DisruptionTarget",
            ));
        }
        let mut pods = Pods {
            wanted: object.wanted(kind),
            missing: object.missing(kind),
            parent: object.metadata.controller(),
            ..Pods::default()
        };
        let mut place = Place::new("v1", "pods").within(&self.namespace);
        place.labels = object.selector(kind);
        let reading = async {
            let mut listed = Objects::of(Pages::of(client, &place));
            while let Some(pod) = listed.next().await? {
                // Reviews are answered meanwhile.
                yield_now().await;
                let Some(pod) = lists::read(&pod) else {
                    continue;
                };
                let pod = Pod(&pod);
                if pod.owner().uid == *uid {
                    pods.add(&pod, need(&pod));
                }
            }
            Ok::<_, Trouble>(())
        };
        match timeout(LIST_TIME, reading).await {
            Ok(Ok(())) => Ok(State::Live(Box::new(pods))),
            Ok(Err(trouble)) => Err(trouble.into_text()),
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
        self.ready += u64::from(is_ready);
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
        let has_missed = before.is_some_and(|before| self.needing >= before);
        let missing = self.missing.max(self.wanted.saturating_sub(self.ready));
        match (self.leaving, self.new, self.first) {
            (Some(pod), ..) => Next::Wait(format!("pod {pod} is being deleted"), Wait::Other),
            (_, Some(pod), _) => Next::Wait(format!("pod {pod} is not ready"), Wait::NewPod),
            _ if has_missed => Next::MissedAgain,
            _ if missing > self.needing_unready => {
                let missing = missing - self.needing_unready;
                let why = format!("{missing} of its pods are not there or not ready");
                Next::Wait(why, Wait::Missing)
            }
            (.., Some((_, target, need))) => Next::Evict(target, need, self.needing),
            (.., None) => Next::Healed,
        }
    }
}

/// A namespace; none if it is gone, or will be.
pub(super) async fn namespace(client: &Client, name: &str) -> Result<Option<About>, String> {
    let place = Place::new("v1", "namespaces");
    let namespace: Object = match get(&place, client, name).await? {
        Got::Object(namespace) => namespace,
        Got::Gone => return Ok(None),
        Got::TooLong => return Err(format!("namespace {name} is too large to be read")),
    };
    let metadata = namespace.metadata;
    Ok(metadata.deletion_timestamp.is_none().then(|| About {
        is_left: metadata.is_left(),
        metadata: NamespaceMetadata {
            labels: metadata.labels,
            ..NamespaceMetadata::default()
        },
    }))
}

/// An object that was asked for.
enum Got<T> {
    Object(T),
    Gone,
    TooLong,
}

async fn get<T: DeserializeOwned>(
    place: &Place,
    client: &Client,
    name: &str,
) -> Result<Got<T>, String> {
    match timeout(GET_TIME, place.get_part(client, name)).await {
        Ok(Ok(Some(object))) => Ok(Got::Object(object)),
        Ok(Ok(None)) => Ok(Got::TooLong),
        Ok(Err(Trouble::NotServed)) => Ok(Got::Gone),
        Ok(Err(trouble)) => Err(trouble.into_text()),
        Err(_) => Err(format!("it could not be read within {GET_TIME:?}")),
    }
}

/// What is read of an owner or a namespace. Templates may be large.
#[derive(Debug, Default, Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: Annotations,
    owner_references: Vec<OwnerReference>,
}

#[derive(Debug, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "podloom.dev/heal")]
    heal: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    replicas: Option<u64>,
    selector: Option<Value>,
    pod_failure_policy: Option<PodFailurePolicy>,
}

/// The numbers of Kubernetes' own workloads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    ready_replicas: u64,
    desired_number_scheduled: u64,
    number_ready: u64,
}

impl Metadata {
    fn is_left(&self) -> bool {
        self.annotations.heal.as_deref() == Some("false")
    }

    fn controller(&self) -> Option<String> {
        let mut owners = self.owner_references.iter();
        let controller = owners.find(|it| it.controller == Some(true))?;
        Some(controller.uid.clone())
    }
}

impl Object {
    /// How many pods should be there.
    fn wanted(&self, kind: &str) -> u64 {
        match kind {
            "DaemonSet" => self.status.desired_number_scheduled,
            _ => self.spec.replicas.unwrap_or_default(),
        }
    }

    /// How many of them are not ready, as its controller says.
    fn missing(&self, kind: &str) -> u64 {
        let ready = match kind {
            "DaemonSet" => self.status.number_ready,
            // A Job has no such number, and no number of pods that should be there.
            _ => self.status.ready_replicas,
        };
        self.wanted(kind).saturating_sub(ready)
    }

    /// By which labels it finds its pods; none if it does not say that.
    fn selector(&self, kind: &str) -> Option<String> {
        let selector = self.spec.selector.clone()?;
        // That of a ReplicationController is only labels.
        let selector = match kind {
            "ReplicationController" => LabelSelector {
                match_labels: serde_json::from_value(selector).ok(),
                ..LabelSelector::default()
            },
            _ => serde_json::from_value(selector).ok()?,
        };
        Some(Selector::try_from(selector).ok()?.to_string())
    }
}

#[cfg(test)]
mod tests;
