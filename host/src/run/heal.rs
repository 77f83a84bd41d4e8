//! Has pods replaced that missed the chain, as long as this replica leads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use podloom_api::names::event;
use podloom_engine::events::{Events, Notice};
use podloom_engine::sent::SendMetrics;
use podloom_metrics::{By, metrics};
use podloom_turns::{Cause, Lines};
use podloom_webhook::{CertificateSlot, OwnerKind};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::{sleep, timeout};

use super::drift::apart;
use super::parts::Parts;
use super::state::OperatorState;
use crate::cli::Heal;
use crate::drift::{Expected, Need, Reader, Scope, Unwanted};
use crate::error::CommandError;
use crate::heal::{Found, Healer, Report, Settings, look};
use crate::mutator::Chains;

/// How often it looks at the cluster while it has nothing to do, and at the latest.
const REST: Duration = Duration::from_secs(60);
const AT_THE_LATEST: Duration = Duration::from_mins(5);
/// How long a chain has to serve before pods of others are replaced: a ConfigMap reaches all replicas within about a minute.
const SETTLED: Duration = Duration::from_mins(2);
/// How long this replica must be able to answer before it evicts. A new replica needs this time to become Ready, to get into the Service,
/// and until the API server trusts a new authority; a pod that is created earlier misses the chain again.
const ANSWERS: Duration = Duration::from_secs(15);
/// How long one look may take.
const LOOK_TIME: Duration = Duration::from_secs(600);
const STEP: Duration = Duration::from_secs(1);

metrics! {
    /// Metrics of healing.
    #[derive(Debug)]
    struct HealMetrics {
        pods: By<1, Gauge> = "heal_pods", "Pods that should be replaced, by why, as the last look has found", By::new(["need"]).from_zero([["missed"], ["banned"], ["older"]]);
        manual: Gauge = "heal_pods_manual", "Those of them that have no controller which is known to replace them";
        stopped: Gauge = "heal_owners_stopped", "Owners at which healing stopped, since a new pod is not ready in time or missed the chain too";
        looks: By<1> = "heal_looks", "Looks for pods that should be replaced", By::new(["outcome"]).from_zero([["complete"], ["failed"]]);
        evictions: By<1> = "heal_evictions", "Pods that were evicted to heal, by why", By::new(["need"]).from_zero([["missed"], ["banned"], ["older"]]);
    }
}

/// Looks for pods that should be replaced, and has it done.
#[derive(Clone)]
pub(super) struct HealTask {
    client: Client,
    /// One for all namespaces, or one for each watched one.
    namespaces: Arc<Vec<Option<String>>>,
    /// The name of the webhook configuration.
    webhook: String,
    how: Heal,
    settings: Settings,
    owners: Arc<Vec<OwnerKind>>,
    chains: Chains,
    /// What it answers with; none without TLS.
    certificate: Option<Arc<CertificateSlot>>,
    metrics: HealMetrics,
    sent: SendMetrics,
    instance: Option<String>,
    /// Decides which lines are logged that anybody can cause.
    lines: Arc<Lines>,
}

/// What one leader remembers.
#[derive(Default)]
struct Memory {
    /// The digest of the chain that serves, and since when it has been seen.
    chain: Option<(String, Instant)>,
    /// Since when this replica has been able to answer.
    answers: Option<Instant>,
    /// When it last looked, and of which chain that was.
    looked: Option<(Instant, String)>,
    healer: Option<Healer>,
    /// What is to be replaced, and how. A rollout changes it.
    settings: Option<Settings>,
    /// How many workloads the last look has found. It is logged once.
    found: usize,
    /// Why the last look failed. It is logged once, and nothing is evicted until one succeeds.
    problem: Option<String>,
}

impl Memory {
    /// Whether this replica has been able to answer for long enough. After a gap, the time begins again.
    fn has_answered(&mut self, can_answer: bool, now: Instant) -> bool {
        self.answers = can_answer.then(|| self.answers.unwrap_or(now));
        self.answers
            .is_some_and(|since| now.duration_since(since) >= ANSWERS)
    }
}

impl HealTask {
    /// None if it is switched off.
    pub(super) fn of(
        parts: &Parts<'_>,
        state: &OperatorState,
        registry: &mut Registry,
    ) -> Option<Self> {
        let webhook = &parts.arguments.webhook;
        let heal = &webhook.heal;
        let how = heal.how?;
        let namespaces = parts.arguments.namespaces();
        let namespaces = match namespaces.is_empty() {
            true => vec![None],
            false => namespaces.into_iter().map(Some).collect(),
        };
        Some(Self {
            client: parts.client.clone(),
            namespaces: Arc::new(namespaces),
            webhook: webhook.name.clone(),
            how,
            settings: Settings::new(heal.owners, heal.ready_within, &heal.banned, heal.older),
            owners: Arc::new(webhook.pod_owners.clone()),
            chains: state.chains(),
            certificate: state.certificate.clone(),
            metrics: HealMetrics::register(registry),
            sent: parts.metrics.events.clone(),
            instance: parts.instance.clone(),
            lines: Arc::default(),
        })
    }

    /// Goes on until it is dropped.
    pub(super) async fn run(self) {
        let _shown = Shown(&self.metrics);
        let (client, instance) = (&self.client, self.instance.as_deref());
        let (events, sending) = Events::new(client, instance, "Heal", self.sent.clone());
        let working = async {
            let mut memory = Memory::default();
            loop {
                self.round(&mut memory, &events).await;
                sleep(STEP).await;
            }
        };
        tokio::select! {
            () = sending => {}
            () = working => {}
        }
    }

    async fn round(&self, memory: &mut Memory, events: &Events) {
        let in_force = self.chains.in_force();
        let Some(chain) = in_force.chain else {
            // Nobody would answer for the new pods.
            (memory.chain, memory.answers) = (None, None);
            return;
        };
        let mut since = match &memory.chain {
            Some((digest, since)) if digest == chain.digest() => *since,
            _ => Instant::now(),
        };
        let mut settings = self.settings.clone();
        settings.unwanted.banned.extend(in_force.banned);
        // During a rollout, neither of the two chains is older.
        settings.unwanted.older &= !in_force.is_split;
        if memory.settings.as_ref() != Some(&settings) {
            (memory.healer, memory.looked) = (None, None);
            since = Instant::now();
            memory.settings = Some(settings.clone());
        }
        memory.chain = Some((chain.digest().to_owned(), since));
        if settings.unwanted.older && since.elapsed() < SETTLED {
            // Another replica may still have the chain before, and would give it to new pods.
            return;
        }
        let is_idle = memory.healer.as_ref().is_none_or(Healer::is_over);
        let is_due = memory.looked.as_ref().is_none_or(|(at, digest)| {
            let is_idle = is_idle || memory.problem.is_some();
            let age = at.elapsed();
            digest != chain.digest() || age > AT_THE_LATEST || (is_idle && age > REST)
        });
        if is_due {
            self.look(memory, Expected::of(&chain), &settings).await;
            memory.looked = Some((Instant::now(), chain.digest().to_owned()));
        }
        let certificate = self.certificate.as_ref();
        let can_answer = certificate.is_none_or(|slot| slot.status().is_ok());
        if !memory.has_answered(can_answer, Instant::now()) {
            return;
        }
        // What was found before may no longer be so.
        let healer = memory.healer.as_mut().filter(|_| memory.problem.is_none());
        let Some(healer) = healer else {
            return;
        };
        for report in healer.step().await {
            self.tell(&report, events);
        }
        let stopped = i64::try_from(healer.stopped());
        self.metrics.stopped.set(stopped.unwrap_or(i64::MAX));
    }

    async fn look(&self, memory: &mut Memory, expected: Expected, settings: &Settings) {
        let found = self.find(expected, settings.unwanted.clone()).await;
        let outcome = if found.is_ok() { "complete" } else { "failed" };
        self.metrics.looks.of([outcome]).inc();
        let found = match found {
            Ok(found) => found,
            Err(problem) => {
                if memory.problem.as_ref() != Some(&problem) {
                    let what = "could not look for pods that should be replaced";
                    tracing::warn!(error = problem, "{what}");
                }
                memory.problem = Some(problem);
                return;
            }
        };
        memory.problem = None;
        let pods = |need| found.pods.get(&need).copied().unwrap_or_default();
        for need in [Need::Missed, Need::Banned, Need::Older] {
            let number = i64::try_from(pods(need)).unwrap_or(i64::MAX);
            self.metrics.pods.of([need.as_str()]).set(number);
        }
        let manual = i64::try_from(found.manual).unwrap_or(i64::MAX);
        self.metrics.manual.set(manual);
        if found.workloads.len() != memory.found {
            let pods: u64 = found.workloads.iter().map(|it| it.pods).sum();
            let (owners, how) = (found.workloads.len(), self.how.as_str());
            tracing::info!(pods, owners, how, "pods should be replaced");
        }
        memory.found = found.workloads.len();
        if self.how == Heal::DryRun {
            return;
        }
        match &mut memory.healer {
            Some(healer) => healer.go_on(found),
            none => {
                let (client, owners) = (self.client.clone(), Arc::clone(&self.owners));
                *none = Some(Healer::new(client, settings.clone(), owners, found));
            }
        }
    }

    /// Looks at all watched namespaces.
    async fn find(&self, expected: Expected, unwanted: Unwanted) -> Result<Found, String> {
        let task = self.clone();
        let looking = async move {
            let looking = timeout(LOOK_TIME, task.find_here(expected, &unwanted));
            let looked = looking.await;
            looked.unwrap_or_else(|_| Err(format!("it took longer than {LOOK_TIME:?}")))
        };
        apart(looking).await?
    }

    async fn find_here(&self, expected: Expected, unwanted: &Unwanted) -> Result<Found, String> {
        let mut all: Option<Found> = None;
        for namespace in self.namespaces.iter() {
            let scope = Scope {
                namespace: namespace.clone(),
                selector: None,
                webhook: self.webhook.clone(),
                reader: Reader::Operator,
            };
            let expected = Some(expected.clone());
            let looked = look(&self.client, &scope, expected, unwanted, &self.owners).await;
            let found = looked.map_err(|error| match error {
                CommandError::Other(error) => format!("{error:#}"),
                error => error.to_string(),
            })?;
            if let Some(skipped) = found.skipped.first() {
                return Err(format!("{}: {}", skipped.what, skipped.why));
            }
            match &mut all {
                Some(all) => all.add(found),
                none => *none = Some(found),
            }
        }
        all.ok_or_else(|| "no namespace is watched".to_owned())
    }

    fn tell(&self, report: &Report, events: &Events) {
        match report {
            Report::Evicted(pod, need) => {
                self.metrics.evictions.of([need.as_str()]).inc();
                let note = match need {
                    Need::Missed => {
                        "this pod missed the chain of Podloom's webhook; it was evicted, and its controller replaces it"
                    }
                    Need::Banned | Need::Older => {
                        "this pod passed a chain of Podloom that it should no longer have; it was evicted, and its controller replaces it"
                    }
                };
                let (namespace, name, why) = (&pod.namespace, &pod.name, need.as_str());
                tracing::info!(
                    namespace,
                    pod = name,
                    why,
                    "evicted a pod to have it replaced"
                );
                events.send(
                    pod.reference(),
                    Notice::normal(event::EVICTED_TO_HEAL, note),
                );
            }
            Report::Healed(workload) => {
                let (namespace, workload) = (&workload.namespace, workload.name());
                tracing::info!(namespace, workload, "its pods passed the chain");
            }
            Report::Stopped(workload, note) => {
                let (namespace, name) = (&workload.namespace, workload.name());
                tracing::warn!(namespace, workload = name, note, "healing stopped");
                let notice = Notice::warning(event::HEAL_STOPPED, note.clone());
                events.send(workload.reference(), notice);
            }
            Report::Left(workload, why) => {
                let cause = Cause {
                    about: "left alone",
                    plugin: None,
                    peer: None,
                    namespace: Some(workload.namespace.clone()),
                };
                if self.lines.may(cause) {
                    let (namespace, workload) = (&workload.namespace, workload.name());
                    tracing::info!(namespace, workload, why, "its pods are left alone");
                }
            }
        }
    }
}

/// Until it is dropped, the metrics show what was found; then another replica looks.
struct Shown<'m>(&'m HealMetrics);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        let HealMetrics {
            pods,
            manual,
            stopped,
            ..
        } = self.0;
        for need in [Need::Missed, Need::Banned, Need::Older] {
            pods.of([need.as_str()]).set(0);
        }
        manual.set(0);
        stopped.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Memory;

    #[test]
    fn it_begins_when_it_could_answer_for_a_while_without_a_gap() {
        let (mut memory, began) = (Memory::default(), Instant::now());
        for (second, can_answer, begins) in [
            (0, false, false),
            (20, true, false),
            (34, true, false),
            (35, true, true),
            (36, false, false),
            (37, true, false),
            (51, true, false),
            (52, true, true),
        ] {
            let now = began + Duration::from_secs(second);
            assert_eq!(memory.has_answered(can_answer, now), begins, "{second}");
        }
    }
}
