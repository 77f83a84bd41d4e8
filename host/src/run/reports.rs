//! Writes what was found as reports: each replica what it found itself, the leader also what concerns all; it removes what is no
//! longer so.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt};
use podloom_engine::plain::plain;
use podloom_metrics::{By, metrics};
use podloom_mutators::Slot;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::candidate::CandidateChain;
use super::parts::{Parts, own_namespace};
use super::rollout::Follower;
use super::state::OperatorState;
use crate::reports::{Key, Kinds, Known, Notes, Policy, document, merged};

/// How often what is new is written, and how long after a failure it is tried again.
const PAUSE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(30);
/// How often the leader looks at all reports.
const SWEEP: Duration = Duration::from_mins(10);
/// After so many failures, the others are not tried.
const FAILURES: usize = 10;
/// How many problems are remembered that the log has said.
const SAID: usize = 100;
/// How many reports come on a page of a list.
const PAGE: u32 = 500;
/// What only the leader finds.
const OF_LEADER: [Policy; 3] = [Policy::Chain, Policy::Rollout, Policy::Drift];

metrics! {
    /// Metrics of reports.
    struct ReportMetrics {
        writes: By<1> = "report_writes", "Writes of reports, by what was done", By::new(["outcome"]).from_zero([["created"], ["updated"], ["deleted"], ["failed"]]);
    }
}

/// Writes reports.
#[derive(Clone)]
pub(super) struct ReportsTask {
    client: Client,
    kinds: Arc<Vec<Kinds>>,
    /// What each report is called.
    name: String,
    /// The watched namespaces; none for all.
    namespaces: Vec<String>,
    own_namespace: String,
    notes: Arc<Notes>,
    slot: Arc<Slot>,
    candidate: Option<Arc<CandidateChain>>,
    follower: Option<Arc<Follower>>,
    looks_for_drift: bool,
    metrics: ReportMetrics,
}

impl ReportsTask {
    /// None if it is switched off.
    pub(super) fn of(
        parts: &Parts<'_>,
        state: &OperatorState,
        registry: &mut Registry,
    ) -> Option<Self> {
        let webhook = &parts.arguments.webhook;
        let groups: BTreeSet<_> = webhook.reports.iter().copied().collect();
        Some(Self {
            client: parts.client.clone(),
            kinds: Arc::new(groups.into_iter().map(Kinds::of).collect()),
            name: webhook.name.clone(),
            namespaces: parts.arguments.namespaces(),
            own_namespace: own_namespace(&parts.arguments.own_pod),
            notes: state.notes.clone()?,
            slot: Arc::clone(&state.slot),
            candidate: state.candidate.clone(),
            follower: state.follower.clone(),
            looks_for_drift: !webhook.drift_interval.is_zero(),
            metrics: ReportMetrics::register(registry),
        })
    }

    /// Writes what is new, until it is dropped.
    pub(super) async fn write(self) {
        let (mut failed, mut since) = (BTreeSet::<String>::new(), Instant::now());
        let (mut said, mut last) = (BTreeSet::new(), String::new());
        loop {
            sleep(PAUSE).await;
            if since.elapsed() >= AGAIN {
                for namespace in take(&mut failed) {
                    self.notes.write(&namespace);
                }
                since = Instant::now();
            }
            let changed = self.notes.take_changed();
            // After those that had their turn, or the first ones could keep out all others.
            let (before, after) = changed.into_iter().partition::<Vec<_>, _>(|it| *it <= last);
            let mut failures = 0;
            for namespace in after.into_iter().chain(before) {
                if failures >= FAILURES {
                    failed.insert(namespace);
                    continue;
                }
                last.clone_from(&namespace);
                let Err(problem) = self.write_of(&namespace).await else {
                    continue;
                };
                self.metrics.writes.of(["failed"]).inc();
                say(&mut said, &namespace, problem);
                failed.insert(namespace);
                failures += 1;
            }
        }
    }

    /// Does what only one replica may do, until it is dropped.
    pub(super) async fn lead(self) {
        let _leading = Leading(&self.notes);
        if !self.looks_for_drift {
            self.notes.all_of(Policy::Drift, Vec::new());
        }
        let (mut swept, mut candidate): (Option<Instant>, _) = (None, None);
        let mut said = BTreeSet::new();
        loop {
            self.notes.all_of(Policy::Chain, self.chain());
            self.notes.all_of(Policy::Rollout, self.rollout());
            let now = self.candidate();
            if swept.is_none_or(|at| at.elapsed() >= SWEEP) || now != candidate {
                self.sweep(&mut said).await;
                (swept, candidate) = (Some(Instant::now()), now);
            }
            sleep(PAUSE).await;
        }
    }

    /// Why a chain could not be loaded.
    fn chain(&self) -> Vec<(String, Key, String)> {
        let slots = [
            ("serving", Some(&self.slot)),
            ("candidate", self.candidate.as_ref().map(|it| it.slot())),
        ];
        let failed = slots.into_iter().filter_map(|(which, slot)| {
            let failed = slot?.serving().failed.clone()?;
            let key = Key::of(Policy::Chain, which, ("", ""));
            Some((String::new(), key, failed.error.to_string()))
        });
        failed.collect()
    }

    /// A rollout that was taken back.
    fn rollout(&self) -> Vec<(String, Key, String)> {
        let refused = self.follower.as_ref().and_then(|it| it.taken_back());
        let found = refused.map(|(namespace, name, why)| {
            let about = ("ChainRollout", name.as_str());
            (
                namespace,
                Key::of(Policy::Rollout, "taken-back", about),
                why,
            )
        });
        found.into_iter().collect()
    }

    /// The digest of the candidate, empty if there is none; none while that is not known.
    fn candidate(&self) -> Option<String> {
        let Some(candidate) = &self.candidate else {
            return Some(String::new());
        };
        let serving = candidate.slot().serving();
        let digest = serving.chain.as_ref().map(|it| it.digest().to_owned());
        digest.or_else(|| serving.failed.is_some().then(String::new))
    }

    /// Has all reports written again that there are or should be: somebody may have changed one. Nothing is written where nothing differs.
    async fn sweep(&self, said: &mut BTreeSet<String>) {
        for namespace in self.notes.namespaces() {
            self.notes.write(&namespace);
        }
        let mut places: Vec<_> = self.namespaces.iter().map(|it| Some(it.as_str())).collect();
        match places.is_empty() {
            true => places.push(None),
            false => places.push(Some(self.own_namespace.as_str())),
        }
        for kinds in self.kinds.iter() {
            let of_namespaces = places.iter().map(|it| (&kinds.of_namespace, *it));
            for (resource, namespace) in of_namespaces.chain([(&kinds.of_cluster, None)]) {
                if let Err(problem) = self.sweep_of(resource, namespace).await {
                    say(said, namespace.unwrap_or_default(), problem);
                }
            }
        }
    }

    /// Reads no more than metadata: there may be many reports of this name, and who may write them may make them large.
    async fn sweep_of(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<(), String> {
        let client = self.client.clone();
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        let mut params = ListParams::default().limit(PAGE);
        params = params.fields(&format!("metadata.name={}", self.name));
        loop {
            let page = match api.list_metadata(&params).await {
                Ok(page) => page,
                // Writing says so, if there is anything to write.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(error) => return Err(reason(&error, resource)),
            };
            for report in &page.items {
                self.notes.write(&report.namespace().unwrap_or_default());
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(()),
            }
        }
    }

    /// The results that a report should have, and what they follow from.
    fn wanted(&self, namespace: &str, before: &Value) -> (Known, Value) {
        let mut known = self.notes.known(namespace);
        known.candidate = self.candidate();
        let results = json!(merged(namespace, before, &known));
        (known, results)
    }

    /// Brings the reports of a namespace up to date.
    async fn write_of(&self, namespace: &str) -> Result<(), String> {
        let (mut known, mut problem) = (None, None);
        for kinds in self.kinds.iter() {
            let client = self.client.clone();
            let (resource, api) = match namespace {
                "" => (&kinds.of_cluster, Api::all_with(client, &kinds.of_cluster)),
                _ => (
                    &kinds.of_namespace,
                    Api::namespaced_with(client, namespace, &kinds.of_namespace),
                ),
            };
            match self.write_to(&api, resource, namespace).await {
                Ok(written) => known = Some(written),
                // Another replica was faster.
                Err(kube::Error::Api(status)) if self.is_overtaken(&status) => {
                    self.notes.write(namespace);
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if is_without_namespace(&status) => {
                    self.notes.is_gone(namespace);
                    return Ok(());
                }
                Err(error) => {
                    problem.get_or_insert(reason(&error, resource));
                }
            }
        }
        match (problem, known) {
            (Some(problem), _) => return Err(problem),
            (None, Some(known)) => self.notes.written(namespace, &known),
            (None, None) => {}
        }
        Ok(())
    }

    /// Whether the report was changed or deleted since it was read.
    fn is_overtaken(&self, status: &kube::core::Status) -> bool {
        let details = status.details.as_ref();
        let is_gone = status.code == 404 && details.is_some_and(|it| it.name == self.name);
        is_gone || status.code == 409
    }

    async fn write_to(
        &self,
        api: &Api<DynamicObject>,
        resource: &ApiResource,
        namespace: &str,
    ) -> Result<Known, kube::Error> {
        let before = api.get_opt(&self.name).await?;
        let data = before.as_ref().map_or(&Value::Null, |it| &it.data);
        let (known, results) = self.wanted(namespace, data);
        if results == *data.get("results").unwrap_or(&json!([])) {
            return Ok(known);
        }
        let is_empty = results.as_array().is_none_or(Vec::is_empty);
        let mut report = document(resource, (namespace, &self.name), &results);
        let outcome = match before {
            None if is_empty => return Ok(known),
            Some(before) if is_empty => {
                let preconditions = Preconditions {
                    uid: before.uid(),
                    resource_version: before.resource_version(),
                };
                let params = DeleteParams::default().preconditions(preconditions);
                api.delete(&self.name, &params).await?;
                "deleted"
            }
            Some(before) => {
                report.metadata.resource_version = before.resource_version();
                api.replace(&self.name, &PostParams::default(), &report)
                    .await?;
                "updated"
            }
            None => {
                api.create(&PostParams::default(), &report).await?;
                "created"
            }
        };
        self.metrics.writes.of([outcome]).inc();
        Ok(known)
    }
}

/// Has the log say each problem once.
fn say(said: &mut BTreeSet<String>, namespace: &str, problem: String) {
    if said.len() >= SAID {
        said.clear();
    }
    if !said.contains(&problem) {
        tracing::warn!(namespace, error = problem, "could not write a report");
    }
    said.insert(problem);
}

/// Whether an object cannot be written since its namespace is not there any more, or soon will not be.
fn is_without_namespace(status: &kube::core::Status) -> bool {
    let details = status.details.as_ref();
    let causes = details.map_or(&[][..], |it| &it.causes);
    let is_ending = causes.iter().any(|it| it.reason == "NamespaceTerminating");
    is_ending || (status.code == 404 && details.is_some_and(|it| it.kind == "namespaces"))
}

fn reason(error: &kube::Error, resource: &ApiResource) -> String {
    let (group, plural) = (&resource.group, &resource.plural);
    match error {
        kube::Error::Api(status) if status.code == 404 => format!(
            "the API server knows no {plural} of {group}: install the CRDs of that project, or leave out --webhook-reports {group}"
        ),
        kube::Error::Api(status) if status.is_forbidden() => format!(
            "{}; podloom rbac --for reports prints the rights",
            status.message
        ),
        error => plain(error).to_string(),
    }
}

/// Until it is dropped, this process knows what only a leader does.
struct Leading<'f>(&'f Notes);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.forget(&OF_LEADER);
    }
}
