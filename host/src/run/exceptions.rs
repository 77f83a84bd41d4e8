//! Says of each ChainException whether it holds, in its status, in Events and in metrics, as long as this replica leads.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, Selector};
use kube::{Api, Client, ResourceExt};
use podloom_api::names::{event, exception};
use podloom_api::{ChainException, ChainExceptionObject, ChainExceptionStatus};
use podloom_controllers::ChainExceptions;
use podloom_engine::clock::Clock;
use podloom_engine::conditions::{Summary, conditions, difference};
use podloom_engine::events::{Events, Notice};
use podloom_engine::plain::plain;
use podloom_engine::sent::SendMetrics;
use podloom_metrics::{By, metrics};
use podloom_mutators::Chain;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::parts::Parts;
use super::state::OperatorState;
use crate::exceptions::{OF_NAMESPACE, lasts};
use crate::mutator::Chains;

/// How often it looks at all of them, and how many statuses it writes then.
const LOOK: Duration = Duration::from_secs(5);
const WRITES: usize = 50;
/// How long nothing is written after a failure.
const REST: Duration = Duration::from_secs(60);
/// Whether one holds, in metrics.
const STATES: [&str; 3] = ["holds", "ended", "refused"];

metrics! {
    /// Metrics of ChainExceptions.
    #[derive(Debug)]
    struct ExceptionMetrics {
        exceptions: By<1, Gauge> = "chain_exceptions", "ChainExceptions, by whether they hold", By::new(["state"]).from_zero([["holds"], ["ended"], ["refused"]]);
        next_end: Gauge = "chain_exception_next_end_timestamp_seconds", "When the next ChainException ends that holds; 0 if there is none";
    }
}

/// Looks after ChainExceptions.
#[derive(Clone)]
pub(super) struct ExceptionTask {
    client: Client,
    exceptions: ChainExceptions,
    /// Whose chain they are about.
    webhook: String,
    chains: Chains,
    clock: Clock,
    metrics: ExceptionMetrics,
    sent: SendMetrics,
    instance: Option<String>,
}

/// What one leader remembers.
#[derive(Default)]
struct Memory {
    /// Namespace and name of the one that was written last.
    last: (Option<String>, String),
    /// What the log said.
    problem: Option<String>,
    rests_until: Option<Instant>,
}

/// A ChainException, what is to be said of it, and what that changes in its status.
type News<'n> = (&'n ChainExceptionObject, Verdict, Map<String, Value>);

/// Whether a ChainException holds: the words of its condition Ready.
struct Verdict {
    reason: &'static str,
    message: String,
}

impl ExceptionTask {
    /// None without webhooks.
    pub(super) fn of(
        parts: &Parts<'_>,
        state: &OperatorState,
        registry: &mut Registry,
    ) -> Option<Self> {
        Some(Self {
            client: parts.client.clone(),
            exceptions: state.exceptions.clone()?,
            webhook: parts.arguments.webhook.name.clone(),
            chains: state.chains(),
            clock: parts.clock.clone(),
            metrics: ExceptionMetrics::register(registry),
            sent: parts.metrics.events.clone(),
            instance: parts.instance.clone(),
        })
    }

    /// Goes on until it is dropped.
    pub(super) async fn run(self) {
        let _shown = Shown(&self.metrics);
        let (client, instance) = (&self.client, self.instance.as_deref());
        let (events, sending) = Events::new(client, instance, "Except", self.sent.clone());
        let working = async {
            let mut memory = Memory::default();
            loop {
                self.look(&mut memory, &events).await;
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = sending => {}
            () = working => {}
        }
    }

    async fn look(&self, memory: &mut Memory, events: &Events) {
        let Some(chain) = self.chains.in_force().chain else {
            // Nobody can say what it allows.
            return;
        };
        let now = self.clock.now();
        let (mut counts, mut next_end) = ([0_i64; 3], None);
        let mut all: Vec<_> = self.exceptions.all();
        all.retain(|it| {
            it.0.as_ref().is_ok_and(|it| {
                // Another installation says whether its own hold.
                it.metadata.deletion_timestamp.is_none() && it.spec.webhook == self.webhook
            })
        });
        let key = |it: &ChainExceptionObject| (it.namespace(), it.name_any());
        all.sort_by_cached_key(|it| it.0.as_ref().ok().map(key));
        let (mut news, mut here) = (Vec::new(), (None, 0));
        for object in all.iter().filter_map(|it| it.0.as_ref().ok()) {
            let namespace = object.namespace();
            here = match here {
                (of, number) if of == namespace => (of, number + 1),
                _ => (namespace, 1),
            };
            let verdict = verdict(object, &chain, (here.1, now));
            let state = match verdict.reason {
                exception::HOLDS => 0,
                exception::ENDED => 1,
                _ => 2,
            };
            if let Some(count) = counts.get_mut(state) {
                *count += 1;
            }
            if state == 0 {
                let end = object.spec.until.0;
                next_end = Some(next_end.map_or(end, |next: Timestamp| next.min(end)));
            }
            if let Some(patch) = patch(object, &verdict, now) {
                news.push((object, verdict, patch));
            }
        }
        for (state, count) in STATES.into_iter().zip(counts) {
            self.metrics.exceptions.of([state]).set(count);
        }
        let next_end = next_end.map_or(0, |it| it.as_second());
        self.metrics.next_end.set(next_end);
        self.say(news, memory, events).await;
    }

    /// Writes what is new, a part of it in each round.
    async fn say(&self, news: Vec<News<'_>>, memory: &mut Memory, events: &Events) {
        if memory.rests_until.is_some_and(|it| Instant::now() < it) {
            return;
        }
        // After those that had their turn, or the first ones could keep out all others.
        let place = |it: &News<'_>| (it.0.namespace(), it.0.name_any());
        let (before, after): (Vec<_>, Vec<_>) =
            news.into_iter().partition(|it| place(it) <= memory.last);
        for news in after.into_iter().chain(before).take(WRITES) {
            memory.last = place(&news);
            if let Err(error) = self.write(&news, events).await {
                let (namespace, name) = (news.0.namespace(), news.0.name_any());
                let error = plain(&error).to_string();
                if memory.problem.as_ref() != Some(&error) {
                    tracing::warn!(
                        namespace,
                        name,
                        error,
                        "could not write the status of a ChainException"
                    );
                }
                memory.problem = Some(error);
                memory.rests_until = Some(Instant::now() + REST);
                return;
            }
        }
    }

    async fn write(
        &self,
        (object, verdict, patch): &News<'_>,
        events: &Events,
    ) -> Result<(), kube::Error> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let resource = ChainException::resource();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, &resource);
        let params = PatchParams {
            field_manager: Some(exception::FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = json!({ "metadata": { "uid": object.uid() }, "status": patch });
        match api.patch_status(&name, &params, &Patch::Merge(patch)).await {
            Ok(_) => {}
            // It is gone, or another one has its name.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => return Ok(()),
            Err(error) => return Err(error),
        }
        let about = ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            name: Some(name),
            namespace: Some(namespace),
            uid: object.uid(),
            ..ObjectReference::default()
        };
        let text = verdict.message.as_str();
        events.send(
            about,
            match verdict.reason {
                exception::HOLDS => Notice::normal(event::EXCEPTION_HOLDS, text),
                exception::ENDED => Notice::normal(event::EXCEPTION_ENDED, text),
                _ => Notice::warning(event::EXCEPTION_REFUSED, text),
            },
        );
        Ok(())
    }
}

/// What is to be written into a status, if that says something else.
fn patch(
    object: &ChainExceptionObject,
    verdict: &Verdict,
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let seen = object.status.clone().unwrap_or_default();
    let summary = match verdict.reason {
        exception::HOLDS => Summary::Ready,
        _ => Summary::Stalled,
    };
    let new = summary.conditions(verdict.reason, &verdict.message).into();
    let generation = object.metadata.generation;
    let status = ChainExceptionStatus {
        observed_generation: generation,
        conditions: conditions(Some(&seen.conditions), new, generation, now),
    };
    let patch = difference(object.status.as_ref(), &status).ok()?;
    (!patch.is_empty()).then_some(patch)
}

/// Whether one holds that is the how manieth of its namespace.
fn verdict(
    exception: &ChainExceptionObject,
    chain: &Chain,
    (number, now): (usize, Timestamp),
) -> Verdict {
    let (spec, lasts) = (&exception.spec, lasts(exception, now));
    let until = spec.until.0;
    let of = |reason, message| Verdict { reason, message };
    if until <= now {
        let text = format!("it ended {until}; delete it, or make another one");
        return of(exception::ENDED, text);
    }
    if number > OF_NAMESPACE {
        let text = format!("only the first {OF_NAMESPACE} of a namespace hold, by name");
        return of(exception::NOT_ALLOWED, text);
    }
    if let Some(selector) = &spec.pods.selector
        && let Err(error) = Selector::try_from(selector.clone())
    {
        return of(exception::INVALID, format!("spec.pods.selector: {error}"));
    }
    let (mut held, mut problems) = (Vec::new(), Vec::new());
    for name in &spec.plugins {
        let plugin = chain.plugins().iter().find(|it| it.name == *name);
        match plugin.map(|it| it.excepts(lasts)) {
            Some(Ok(())) => held.push(name.as_str()),
            Some(Err(why)) => problems.push((exception::NOT_ALLOWED, why)),
            None => {
                let why = format!("the chain has no plugin {name:?}");
                problems.push((exception::NO_PLUGIN, why));
            }
        }
    }
    let why: Vec<&str> = problems.iter().map(|(_, why)| why.as_str()).collect();
    let why = why.join("; ");
    match problems.first() {
        Some((reason, _)) if held.is_empty() => of(reason, why),
        Some(_) => of(
            exception::HOLDS,
            format!("until {until} for {}; {why}", held.join(", ")),
        ),
        None => of(
            exception::HOLDS,
            format!("until {until} for {}", held.join(", ")),
        ),
    }
}

/// Until it is dropped, the metrics show what was found; then another replica looks.
struct Shown<'m>(&'m ExceptionMetrics);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        for state in STATES {
            self.0.exceptions.of([state]).set(0);
        }
        self.0.next_end.set(0);
    }
}
