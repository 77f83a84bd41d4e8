//! Has pods that wait at the gate made anew, once a webhook answers again: their controllers make others, which pass the chain.
//!
//! Hardly anything of a pod may change while it waits, so it is not passed through the chain where it is. It has started nothing, so
//! nothing is lost. All that is known is in the cluster: a new leader goes on where the last one stopped.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    DeleteOptions, OwnerReference, Preconditions,
};
use kube::api::{ListParams, PostParams};
use kube::core::{ObjectMeta, PartialObjectMeta, Status};
use kube::{Api, Client};
use podloom_api::names::{condition, event, label, scheduling_gate};
use podloom_engine::events::{Events, Notice};
use podloom_engine::plain::plain;
use podloom_engine::sent::SendMetrics;
use podloom_metrics::{By, metrics};
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::{sleep, timeout};

use super::pace::Pace;
use crate::owners::{OwnerKind, makes_pods};

/// How many pods a page of a list has.
const PAGE: u32 = 500;
/// The most pods that are looked at in one round. The others come to it when these are gone.
const LISTED: usize = 10_000;
/// How many Jobs are read in one round.
const JOBS: usize = 50;
/// How long to wait while this replica has no chain, and after a failure.
const NOT_READY: Duration = Duration::from_secs(1);
const FAILED: Duration = Duration::from_secs(10);
const EVICTED: &str = "no webhook of Podloom answered when this pod was created, so it waited at the gate; it is evicted, and its controller makes another one";
/// How long one round may take.
const ROUND_TIME: Duration = Duration::from_secs(60);

metrics! {
    /// Metrics of the gate.
    #[derive(Debug)]
    pub struct GateMetrics {
        waiting: Gauge = "gated_pods", "Pods that wait at the gate, since no webhook answered when they were created";
        left: Gauge = "gated_pods_left", "Those of them that a person has to delete";
        evictions: By<1> = "gated_pod_evictions", "Pods at the gate that were evicted so that others pass the chain", By::new(["outcome"]).from_zero([["evicted"], ["refused"], ["failed"]]);
    }
}

/// What it takes to have pods made anew.
#[derive(Clone)]
pub struct GatedPods {
    /// The client of the API server.
    pub client: Client,
    /// The namespaces that are watched; none for all.
    pub namespaces: Vec<String>,
    /// Kinds besides Kubernetes' own whose controllers make pods.
    pub owners: Vec<OwnerKind>,
    /// Whether pods pass this replica's chain.
    pub is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
    /// The metrics.
    pub metrics: GateMetrics,
    /// Counts Events.
    pub sent: SendMetrics,
    /// The name of our own pod: the reporting instance of Events.
    pub instance: Option<String>,
}

/// Why a pod stays where it is until a person acts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Left {
    /// Nothing controls it.
    Bare,
    /// Nobody knows whether its controller makes another one.
    UnknownOwner,
    /// Its Job counts an evicted pod as failed.
    Job,
}

/// What is to be done with a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    MakeAnew,
    Leave(Left),
    /// Its Job has to be read first.
    AskJob,
    /// It is being deleted, or has no gate: anybody can write the label.
    Ignore,
}

/// What one leader knows.
#[derive(Default)]
struct Memory {
    pace: Pace,
    /// By the UIDs of Jobs: whether one goes on if a pod of it is evicted.
    jobs: HashMap<String, bool>,
    /// The UIDs of pods that have the label, but no gate.
    ungated: HashSet<String>,
    /// The UIDs of pods of which a person was told.
    told: HashSet<String>,
}

impl GatedPods {
    /// Looks for pods that wait, until it is dropped.
    pub async fn run(self) {
        let (client, instance) = (&self.client, self.instance.as_deref());
        let (events, sending) = Events::new(client, instance, "Gate", self.sent.clone());
        let _shown = Shown(&self.metrics);
        let looking = async {
            let mut memory = Memory::default();
            loop {
                sleep(self.look(&mut memory, &events).await).await;
            }
        };
        tokio::select! {
            () = sending => {}
            () = looking => {}
        }
    }

    /// Looks once. Returns how long to wait for the next time.
    async fn look(&self, memory: &mut Memory, events: &Events) -> Duration {
        if !(self.is_ready)() {
            // What came meanwhile came while nobody could answer.
            memory.pace = Pace::default();
            return NOT_READY;
        }
        match timeout(ROUND_TIME, self.round(memory, events)).await {
            Ok(Ok(pause)) => return pause,
            Ok(Err(error)) => {
                let error = plain(&error);
                tracing::warn!(error, "pods that wait at the gate could not be made anew");
            }
            Err(_) => {
                tracing::warn!("pods that wait at the gate could not be made anew in time");
            }
        }
        FAILED
    }

    async fn round(&self, memory: &mut Memory, events: &Events) -> Result<Duration, kube::Error> {
        let mut pods = self.list().await?;
        // One owner after the other.
        pods.sort_by_cached_key(|pod| {
            let owner = controller(pod).map(|owner| (owner.kind.clone(), owner.name.clone()));
            (pod.namespace.clone(), owner, pod.name.clone())
        });
        let uids: HashSet<String> = pods.iter().filter_map(|pod| pod.uid.clone()).collect();
        memory.keep(&pods, &uids);
        self.read_jobs(memory, &pods).await?;
        let fates = pods.iter().map(|pod| (pod, memory.fate(pod, &self.owners)));
        let fates: Vec<(&ObjectMeta, Fate)> = fates.collect();
        self.report(memory, &fates, events);
        let is_anew = |(_, fate): &&(_, Fate)| *fate == Fate::MakeAnew;
        let is_idle = !fates.iter().any(|it| is_anew(&it));
        let turn = memory.pace.turn(uids, is_idle);
        let mut evicted = 0;
        for (pod, _) in fates.iter().filter(is_anew).take(turn.pods) {
            evicted += usize::from(self.make_anew(memory, pod, events).await?);
        }
        if evicted > 0 {
            tracing::info!(pods = evicted, "pods that waited at the gate are made anew");
        }
        Ok(turn.pause)
    }

    /// The pods that say that they wait: as the API server has them now, so that nothing is done twice.
    async fn list(&self) -> Result<Vec<ObjectMeta>, kube::Error> {
        let apis: Vec<Api<Pod>> = match self.namespaces.as_slice() {
            [] => vec![Api::all(self.client.clone())],
            some => {
                let of = |namespace: &String| Api::namespaced(self.client.clone(), namespace);
                some.iter().map(of).collect()
            }
        };
        let mut pods = Vec::new();
        for api in apis {
            let mut page = ListParams::default().labels(label::GATED).limit(PAGE);
            loop {
                let listed = api.list_metadata(&page).await?;
                pods.extend(listed.items.into_iter().map(small));
                let next = listed.metadata.continue_.filter(|it| !it.is_empty());
                match next {
                    Some(next) if pods.len() < LISTED => page = page.continue_token(&next),
                    _ => break,
                }
            }
        }
        Ok(pods)
    }

    /// Reads the Jobs that are not known yet. What they say of evicted pods never changes.
    async fn read_jobs(&self, memory: &mut Memory, pods: &[ObjectMeta]) -> Result<(), kube::Error> {
        let mut asked = 0;
        for pod in pods {
            let Some(owner) = controller(pod).filter(|owner| is_job(owner)) else {
                continue;
            };
            if asked == JOBS || memory.jobs.contains_key(&owner.uid) {
                continue;
            }
            asked += 1;
            let namespace = pod.namespace.as_deref().unwrap_or_default();
            let jobs: Api<Job> = Api::namespaced(self.client.clone(), namespace);
            let job = jobs.get_opt(&owner.name).await?;
            let job = job.filter(|job| job.metadata.uid.as_ref() == Some(&owner.uid));
            // Nothing makes pods for a Job that is gone.
            let goes_on = job.is_some_and(|job| ignores_evictions(&job));
            memory.jobs.insert(owner.uid.clone(), goes_on);
        }
        Ok(())
    }

    /// Evicts a pod, if it still waits. Returns whether it is gone.
    async fn make_anew(
        &self,
        memory: &mut Memory,
        pod: &ObjectMeta,
        events: &Events,
    ) -> Result<bool, kube::Error> {
        let (namespace, name) = names(pod);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let now = pods.get_opt(name).await?;
        let Some(now) = now.filter(|now| now.metadata.uid == pod.uid) else {
            return Ok(false);
        };
        if !is_gated(&now) {
            memory.ungated.extend(pod.uid.clone());
            return Ok(false);
        }
        events.send(reference(pod), Notice::normal(event::MADE_ANEW, EVICTED));
        let (options, eviction) = (PostParams::default(), eviction(&now));
        let evicted = pods.create_subresource("eviction", name, &options, &eviction);
        let evicted: Result<Status, kube::Error> = evicted.await;
        let outcome = match &evicted {
            Ok(_) => "evicted",
            // It is gone, or was changed; or a budget or the API server itself asks for patience.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 429) => "refused",
            Err(_) => "failed",
        };
        self.metrics.evictions.of([outcome]).inc();
        match evicted {
            Err(error) if outcome == "failed" => Err(error),
            evicted => Ok(evicted.is_ok()),
        }
    }

    /// Shows what waits, and tells a person once about each pod that is left.
    fn report(&self, memory: &mut Memory, fates: &[(&ObjectMeta, Fate)], events: &Events) {
        let (mut waiting, mut left) = (0, 0);
        for (pod, fate) in fates {
            waiting += i64::from(*fate != Fate::Ignore);
            let Fate::Leave(why) = fate else { continue };
            left += 1;
            let uid = pod.uid.clone().unwrap_or_default();
            if memory.told.insert(uid) {
                let notice = Notice::warning(event::WAITS_AT_GATE, why.note());
                events.send(reference(pod), notice);
            }
        }
        self.metrics.waiting.set(waiting);
        self.metrics.left.set(left);
    }
}

/// Until it is dropped, the metrics show what waits; then another replica looks.
struct Shown<'m>(&'m GateMetrics);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(0);
        self.0.left.set(0);
    }
}

impl Left {
    fn note(self) -> &'static str {
        match self {
            Self::Bare => {
                "no webhook of Podloom answered when this pod was created, so it waits at the gate; nothing controls it: delete it and create it again"
            }
            Self::UnknownOwner => {
                "no webhook of Podloom answered when this pod was created, so it waits at the gate; if its controller makes another one, delete it, or name the kind of the controller with --pod-owner"
            }
            Self::Job => {
                "no webhook of Podloom answered when this pod was created, so it waits at the gate; its Job counts an evicted pod as failed: delete it if the Job has attempts left, or create the Job again, with a podFailurePolicy that ignores DisruptionTarget"
            }
        }
    }
}

impl Memory {
    /// What is to be done with a pod, given the kinds besides Kubernetes' own whose controllers make pods.
    fn fate(&self, pod: &ObjectMeta, others: &[OwnerKind]) -> Fate {
        let uid = pod.uid.as_deref().unwrap_or_default();
        if pod.deletion_timestamp.is_some() || self.ungated.contains(uid) {
            return Fate::Ignore;
        }
        let Some(owner) = controller(pod) else {
            return Fate::Leave(Left::Bare);
        };
        if is_job(owner) {
            return match self.jobs.get(&owner.uid) {
                None => Fate::AskJob,
                Some(true) => Fate::MakeAnew,
                Some(false) => Fate::Leave(Left::Job),
            };
        }
        match makes_pods(owner, others) {
            true => Fate::MakeAnew,
            false => Fate::Leave(Left::UnknownOwner),
        }
    }

    /// Forgets what is gone.
    fn keep(&mut self, pods: &[ObjectMeta], uids: &HashSet<String>) {
        let owners: HashSet<&str> = pods
            .iter()
            .filter_map(|pod| Some(controller(pod)?.uid.as_str()))
            .collect();
        self.jobs.retain(|uid, _| owners.contains(uid.as_str()));
        self.ungated.retain(|uid| uids.contains(uid));
        self.told.retain(|uid| uids.contains(uid));
    }
}

/// What is needed of the metadata of a pod. Everybody may write large ones.
fn small(pod: PartialObjectMeta<Pod>) -> ObjectMeta {
    let ObjectMeta {
        namespace,
        name,
        uid,
        deletion_timestamp,
        owner_references,
        ..
    } = pod.metadata;
    let controllers = owner_references.map(|owners| {
        let is_controller = |owner: &OwnerReference| owner.controller == Some(true);
        owners.into_iter().filter(is_controller).take(1).collect()
    });
    ObjectMeta {
        namespace,
        name,
        uid,
        deletion_timestamp,
        owner_references: controllers,
        ..ObjectMeta::default()
    }
}

fn controller(pod: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = pod.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

fn is_job(owner: &OwnerReference) -> bool {
    owner.kind == "Job" && owner.api_version.starts_with("batch/")
}

/// Whether a Job makes another pod for an evicted one, and counts none as failed.
fn ignores_evictions(job: &Job) -> bool {
    let policy = job
        .spec
        .as_ref()
        .and_then(|spec| spec.pod_failure_policy.as_ref());
    let is_for_evictions = |rule: &&PodFailurePolicyRule| {
        let mut conditions = rule.on_pod_conditions.iter().flatten();
        conditions.any(|it| {
            // True if it is left out.
            it.type_ == condition::DISRUPTION_TARGET && matches!(&*it.status, "" | "True")
        })
    };
    // The first rule that matches decides.
    let rules = policy.iter().flat_map(|policy| &policy.rules);
    let mut matching = rules.filter(is_for_evictions);
    matching.next().is_some_and(|rule| rule.action == "Ignore")
}

fn is_gated(pod: &Pod) -> bool {
    let gates = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduling_gates.as_ref());
    let mut gates = gates.into_iter().flatten();
    gates.any(|gate| gate.name == scheduling_gate::CHAIN)
}

fn names(pod: &ObjectMeta) -> (&str, &str) {
    let [namespace, name] = [&pod.namespace, &pod.name].map(|it| it.as_deref().unwrap_or_default());
    (namespace, name)
}

/// The eviction of this pod as it is now: not of another one of its name, and not once its gate is gone.
///
/// kube's own eviction calls the options `delete_options`, so that the API server ignores them.
fn eviction(pod: &Pod) -> Eviction {
    let ObjectMeta {
        namespace,
        name,
        uid,
        resource_version,
        ..
    } = pod.metadata.clone();
    Eviction {
        metadata: ObjectMeta {
            namespace,
            name,
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            preconditions: Some(Preconditions {
                uid,
                resource_version,
            }),
            ..DeleteOptions::default()
        }),
    }
}

fn reference(pod: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests;
