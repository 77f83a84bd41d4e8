//! Has pods replaced that wait at the gate, once a webhook answers again: it evicts them, and their controllers create others.
//!
//! Hardly anything of a pod may change while it waits, so it cannot pass the chain where it is. It has started nothing, so nothing is
//! lost. All that is known is in the cluster: a new leader goes on where the last one stopped.

mod pace;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::batch::v1::Job;
use kube::core::Selector;
use kube::{Api, Client};
use podloom_api::names::event;
use podloom_engine::clock::Clock;
use podloom_engine::events::{Events, Notice};
use podloom_engine::plain::plain;
use podloom_engine::sent::SendMetrics;
use podloom_metrics::{By, metrics};
use podloom_mutators::Slot;
use podloom_webhook::OwnerKind;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use self::pace::{Pace, REST};
use super::parts::Parts;
use super::state::OperatorState;
use crate::drift::{self, Pod};
use crate::evict::{Evicted, Fate, Manual, Target, ignores_evictions};
use crate::lists::{self, Objects, Pages, Place, Trouble};
use crate::manifest::metadata;

/// How many pods a round looks at, and how many of one owner.
const LISTED: usize = 1000;
const OF_OWNER: usize = 50;
/// How many Jobs are read in one round, and in one namespace.
const JOBS: usize = 50;
const JOBS_OF_NAMESPACE: usize = 10;
/// How many pods get a Warning in one round, and when they get it again: the API server keeps Events for an hour.
const WARNINGS: usize = 50;
const WARN_AGAIN: Duration = Duration::from_mins(30);
/// How long a pod is left alone that the API server did not evict.
const HELD: Duration = Duration::from_mins(1);
/// How long one round, and one request, may take.
const ROUND_TIME: Duration = Duration::from_secs(120);
const REQUEST_TIME: Duration = Duration::from_secs(5);
const EVICTED: &str = "no webhook of Podloom answered when this pod was created, so it waited at the gate; it was evicted, and its controller replaces it";

metrics! {
    /// Metrics of the gate.
    #[derive(Debug)]
    struct GateMetrics {
        waiting: Gauge = "gated_pods", "Pods that wait at the gate, since no webhook answered when they were created";
        manual: Gauge = "gated_pods_manual", "Those of them that only a person can delete";
        looks: By<1> = "gate_looks", "Looks for pods that wait at the gate", By::new(["outcome"]).from_zero([["complete"], ["failed"]]);
        evictions: By<1> = "gated_pod_evictions", "Pods at the gate that were to be evicted", By::new(["outcome"]).from_zero([["evicted"], ["refused"], ["failed"]]);
    }
}

/// Looks for pods that wait, and has them replaced.
#[derive(Clone)]
pub(super) struct GateTask {
    client: Client,
    /// The watched namespaces; none for all.
    namespaces: Arc<Vec<String>>,
    /// The name of the webhook configuration.
    webhook: String,
    owners: Arc<Vec<OwnerKind>>,
    slot: Arc<Slot>,
    clock: Clock,
    metrics: GateMetrics,
    sent: SendMetrics,
    instance: Option<String>,
}

/// What one leader remembers.
#[derive(Default)]
struct Memory {
    pace: Pace,
    /// Whether a Job goes on if a pod of it is evicted, by its namespace, name and UID. That never changes.
    jobs: HashMap<[String; 3], bool>,
    /// Why the last look failed. It is logged once.
    problem: Option<String>,
    /// How many Jobs were read in this round, by namespace.
    asked: HashMap<String, usize>,
    /// When a pod gets its Warning again, by its UID.
    warned: HashMap<String, Instant>,
    /// Until when a pod is left alone, by its UID.
    held: HashMap<String, Instant>,
}

/// What a look has found.
#[derive(Default)]
struct Found {
    /// All pods that wait.
    count: usize,
    manual: usize,
    /// The first of these that are due for a Warning.
    due: Vec<(Target, Manual)>,
    /// Those that can be evicted, as many as are looked at; apart those whose owners have failed, which must not keep others out.
    evictable: Vec<Target>,
    failing: Vec<Target>,
}

impl GateTask {
    /// None if it is switched off.
    pub(super) fn of(
        parts: &Parts<'_>,
        state: &OperatorState,
        registry: &mut Registry,
    ) -> Option<Self> {
        let webhook = &parts.arguments.webhook;
        webhook.gate.then(|| Self {
            client: parts.client.clone(),
            namespaces: Arc::new(parts.arguments.namespaces()),
            webhook: webhook.name.clone(),
            owners: Arc::new(webhook.pod_owners.clone()),
            slot: Arc::clone(&state.slot),
            clock: parts.clock.clone(),
            metrics: GateMetrics::register(registry),
            sent: parts.metrics.events.clone(),
            instance: parts.instance.clone(),
        })
    }

    /// Looks again and again, until it is dropped.
    pub(super) async fn run(self) {
        let _shown = Shown(&self.metrics);
        let (client, instance) = (&self.client, self.instance.as_deref());
        let (events, sending) = Events::new(client, instance, "Gate", self.sent.clone());
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
        let looked = timeout(ROUND_TIME, self.round(memory, events)).await;
        let problem = match looked {
            Ok(Ok(pause)) => {
                self.metrics.looks.of(["complete"]).inc();
                memory.problem = None;
                return pause;
            }
            Ok(Err(problem)) => problem,
            Err(_) => format!("it took longer than {ROUND_TIME:?}"),
        };
        self.metrics.looks.of(["failed"]).inc();
        if memory.problem.as_ref() != Some(&problem) {
            tracing::warn!(
                error = problem,
                "could not look for pods that wait at the gate"
            );
        }
        memory.problem = Some(problem);
        REST
    }

    async fn round(&self, memory: &mut Memory, events: &Events) -> Result<Duration, String> {
        let Found {
            count,
            manual,
            due,
            mut evictable,
            failing,
        } = self.find(memory).await?;
        evictable.extend(failing);
        self.metrics
            .waiting
            .set(i64::try_from(count).unwrap_or(i64::MAX));
        self.metrics
            .manual
            .set(i64::try_from(manual).unwrap_or(i64::MAX));
        memory.warn(&due, events);
        if self.slot.serving().chain.is_none() {
            // Nobody can answer, so nothing that happens now says anything.
            memory.pace = Pace::default();
            return Ok(REST);
        }
        let turn = memory.pace.turn(&mut evictable, self.clock.now());
        let mut evicted = 0;
        for pod in evictable.iter().take(turn.pods) {
            evicted += usize::from(self.evict(memory, pod, events).await);
        }
        if evicted > 0 {
            tracing::info!(pods = evicted, "evicted pods that waited at the gate");
        }
        Ok(turn.pause)
    }

    /// Reads which pods wait, one after the other: anybody may make large ones. It stops when there is enough to do for a while, so that
    /// then more of them may wait than it has counted.
    async fn find(&self, memory: &mut Memory) -> Result<Found, String> {
        memory.begin();
        let mut found = Found::default();
        let mut selected = None;
        let mut of_owner: HashMap<String, usize> = HashMap::new();
        'places: for place in self.places() {
            let mut pods = Objects::of(Pages::of(&self.client, &place));
            while let Some(listed) = pods.next().await.map_err(Trouble::into_text)? {
                // Reviews are answered meanwhile.
                yield_now().await;
                let Some(pod) = lists::read(&listed) else {
                    continue;
                };
                let pod = Pod(&pod);
                if !pod.is_gated() || pod.is_over() {
                    continue;
                }
                let pod = Target::of(&pod);
                if selected.is_none() {
                    selected = Some(self.selected().await?);
                }
                // In other namespaces, a gate is written by the author of a pod, and would be back in the next one.
                if !selected.iter().flatten().any(|it| *it == pod.namespace) {
                    continue;
                }
                found.count += 1;
                self.sort(memory, &mut found, &mut of_owner, pod).await;
                if found.evictable.len() == LISTED {
                    break 'places;
                }
            }
        }
        let owners: HashSet<&str> = of_owner.keys().map(String::as_str).collect();
        memory
            .jobs
            .retain(|[_, _, uid], _| owners.contains(uid.as_str()));
        Ok(found)
    }

    fn places(&self) -> Vec<Place> {
        let place = || {
            let mut place = Place::new("v1", "pods");
            place.fields = Some("status.phase=Pending,spec.nodeName=".to_owned());
            place
        };
        match self.namespaces.as_slice() {
            [] => vec![place()],
            some => some.iter().map(|it| place().within(it)).collect(),
        }
    }
}

/// Sorts what a look finds.
impl GateTask {
    async fn sort(
        &self,
        memory: &mut Memory,
        found: &mut Found,
        of_owner: &mut HashMap<String, usize>,
        pod: Target,
    ) {
        let number = of_owner.entry(pod.owner.uid.clone()).or_default();
        let manual = match pod.fate(&self.owners) {
            Fate::Evict => None,
            Fate::Manual(why) => Some(why),
            Fate::AskJob => match self.goes_on(memory, &pod).await {
                Some(true) => None,
                Some(false) => Some(Manual::Job),
                // It is read in a later round.
                None => return,
            },
        };
        match manual {
            Some(why) => {
                found.manual += 1;
                if found.due.len() < WARNINGS && !memory.warned.contains_key(&pod.uid) {
                    found.due.push((pod, why));
                }
            }
            None if memory.held.contains_key(&pod.uid) => {}
            None => {
                *number += 1;
                let list = match memory.pace.has_failed(&pod.owner.uid) {
                    true => &mut found.failing,
                    false => &mut found.evictable,
                };
                if *number <= OF_OWNER && list.len() < LISTED {
                    list.push(pod);
                }
            }
        }
    }

    /// Whether the Job of a pod goes on if the pod is evicted; none if that is not known.
    async fn goes_on(&self, memory: &mut Memory, pod: &Target) -> Option<bool> {
        let key = [&pod.namespace, &pod.owner.name, &pod.owner.uid].map(String::clone);
        if let Some(known) = memory.jobs.get(&key) {
            return Some(*known);
        }
        let of_namespace = memory.asked.get(&pod.namespace).copied();
        if memory.asked.values().sum::<usize>() >= JOBS
            || of_namespace.unwrap_or_default() >= JOBS_OF_NAMESPACE
        {
            return None;
        }
        *memory.asked.entry(pod.namespace.clone()).or_default() += 1;
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &pod.namespace);
        let job = match timeout(REQUEST_TIME, jobs.get_opt(&pod.owner.name)).await {
            Ok(Ok(job)) => job,
            Ok(Err(error)) => {
                let (namespace, job, error) = (&pod.namespace, &pod.owner.name, plain(&error));
                tracing::warn!(
                    namespace,
                    job,
                    error,
                    "a pod of a Job waits at the gate, and the Job could not be read"
                );
                return None;
            }
            Err(_) => return None,
        };
        // Nothing replaces the pods of a Job that is gone.
        let job = job.filter(|job| job.metadata.uid.as_ref() == Some(&pod.owner.uid));
        let goes_on = job.is_some_and(|job| ignores_evictions(&job));
        memory.jobs.insert(key, goes_on);
        Some(goes_on)
    }

    /// The namespaces that the webhook selects.
    async fn selected(&self) -> Result<HashSet<String>, String> {
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let found = configurations.get_opt(&self.webhook).await;
        let found = found.map_err(|error| plain(&error))?;
        let mut names = HashSet::new();
        for hook in found.iter().flat_map(drift::hooks_for_new_pods) {
            let selector = hook.namespace_selector.clone().unwrap_or_default();
            let selector = Selector::try_from(selector).map_err(|error| error.to_string())?;
            let mut place = Place::new("v1", "namespaces");
            place.labels = Some(selector.to_string());
            let mut pages = Pages::of_metadata(&self.client, &place);
            while let Some(page) = pages.next().await.map_err(Trouble::into_text)? {
                names.extend(page.iter().map(|it| metadata(it, "name").to_owned()));
            }
        }
        Ok(names)
    }
}

impl GateTask {
    /// Evicts a pod, if it is still as it was read. Returns whether that was done.
    async fn evict(&self, memory: &mut Memory, pod: &Target, events: &Events) -> bool {
        let evicted = pod.evict(&self.client).await;
        self.metrics.evictions.of([evicted.as_str()]).inc();
        if let Evicted::Failed(error) | Evicted::Unanswered(error) = &evicted {
            let (namespace, pod) = (&pod.namespace, &pod.name);
            let what = "a pod that waits at the gate could not be evicted";
            tracing::warn!(namespace, pod, error, "{what}");
        }
        if evicted != Evicted::Done {
            // The others go on.
            memory.held.insert(pod.uid.clone(), Instant::now() + HELD);
            return false;
        }
        memory.pace.evicted(&pod.owner.uid, self.clock.now());
        events.send(
            pod.reference(),
            Notice::normal(event::EVICTED_AT_GATE, EVICTED),
        );
        true
    }
}

impl Memory {
    /// Forgets what is over.
    fn begin(&mut self) {
        let now = Instant::now();
        self.asked.clear();
        self.warned.retain(|_, again| *again > now);
        self.held.retain(|_, until| *until > now);
    }

    /// Warns of pods that only a person can delete, again and again as long as they wait.
    fn warn(&mut self, due: &[(Target, Manual)], events: &Events) {
        for (pod, why) in due {
            self.warned
                .insert(pod.uid.clone(), Instant::now() + WARN_AGAIN);
            let notice = Notice::warning(event::WAITS_AT_GATE, note(*why));
            events.send(pod.reference(), notice);
        }
    }
}

/// Until it is dropped, the metrics show what waits; then another replica looks.
struct Shown<'m>(&'m GateMetrics);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(0);
        self.0.manual.set(0);
    }
}

/// What a person has to know of such a pod.
fn note(why: Manual) -> &'static str {
    match why {
        Manual::Bare => {
            "no webhook of Podloom answered when this pod was created, so it waits at the gate; nothing controls it: delete it and create it again"
        }
        Manual::UnknownOwner => {
            "no webhook of Podloom answered when this pod was created, so it waits at the gate; if its controller replaces pods, delete it, and name the kind of the controller with --pod-owner"
        }
        Manual::Job => {
            "no webhook of Podloom answered when this pod was created, so it waits at the gate; its Job counts an evicted pod as failed: delete the pod if the Job has attempts left, or create the Job again, with a podFailurePolicy that ignores DisruptionTarget"
        }
    }
}
