//! Writes what was found as reports: each replica what it found itself, the leader also what concerns all; it removes what is no
//! longer so.

use std::collections::BTreeSet;
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
use super::parts::Parts;
use super::rollout::Follower;
use super::state::OperatorState;
use crate::reports::{Findings, Key, Kinds, Known, MANAGED_BY, Policy, document, merged};

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
const PAGE: u32 = 50;
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
    findings: Arc<Findings>,
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
            findings: state.findings.clone()?,
            slot: Arc::clone(&state.slot),
            candidate: state.candidate.clone(),
            follower: state.follower.clone(),
            looks_for_drift: !webhook.drift_interval.is_zero(),
            metrics: ReportMetrics::register(registry),
        })
    }

    /// Writes what is new, until it is dropped.
    pub(super) async fn write(self) {
        let mut failed: BTreeSet<String> = BTreeSet::new();
        let (mut since, mut said) = (Instant::now(), BTreeSet::new());
        loop {
            sleep(PAUSE).await;
            if since.elapsed() >= AGAIN {
                for namespace in std::mem::take(&mut failed) {
                    self.findings.write(&namespace);
                }
                since = Instant::now();
            }
            let mut failures = 0;
            for namespace in self.findings.take_changed() {
                if failures >= FAILURES {
                    failed.insert(namespace);
                    continue;
                }
                let Err(problem) = self.write_of(&namespace).await else {
                    continue;
                };
                self.metrics.writes.of(["failed"]).inc();
                if !said.contains(&problem) {
                    tracing::warn!(namespace, error = problem, "could not write a report");
                }
                if said.len() >= SAID {
                    said.clear();
                }
                said.insert(problem);
                failed.insert(namespace);
                failures += 1;
            }
        }
    }

    /// Does what only one replica may do, until it is dropped.
    pub(super) async fn lead(self) {
        let _leading = Leading(&self.findings);
        if !self.looks_for_drift {
            self.findings.all_of(Policy::Drift, Vec::new());
        }
        let (mut swept, mut candidate): (Option<Instant>, _) = (None, None);
        loop {
            self.findings.all_of(Policy::Chain, self.chain());
            self.findings.all_of(Policy::Rollout, self.rollout());
            let now = self.candidate();
            if swept.is_none_or(|at| at.elapsed() >= SWEEP) || now != candidate {
                if let Err(problem) = self.sweep().await {
                    tracing::debug!(error = problem, "could not list reports");
                }
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

    /// Finds reports that are not as they should be, for whatever reason.
    async fn sweep(&self) -> Result<(), String> {
        let mut missing: BTreeSet<String> = self.findings.namespaces().into_iter().collect();
        for kinds in self.kinds.iter() {
            let mut places: Vec<_> = self.namespaces.iter().map(|it| Some(it.as_str())).collect();
            if places.is_empty() {
                places.push(None);
            }
            let of_namespaces = places.into_iter().map(|it| (&kinds.of_namespace, it));
            for (resource, namespace) in of_namespaces.chain([(&kinds.of_cluster, None)]) {
                let api: Api<DynamicObject> = match namespace {
                    Some(namespace) => {
                        Api::namespaced_with(self.client.clone(), namespace, resource)
                    }
                    None => Api::all_with(self.client.clone(), resource),
                };
                self.sweep_of(&api, &mut missing).await?;
            }
        }
        for namespace in missing {
            self.findings.write(&namespace);
        }
        Ok(())
    }

    async fn sweep_of(
        &self,
        api: &Api<DynamicObject>,
        missing: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let mut params = ListParams::default().limit(PAGE);
        params = params.labels(&format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(error) => return Err(plain(&error).to_string()),
            };
            for report in page.items.iter().filter(|it| it.name_any() == self.name) {
                let namespace = report.namespace().unwrap_or_default();
                missing.remove(&namespace);
                if self.wanted(&namespace, &report.data).1 != report.data["results"] {
                    self.findings.write(&namespace);
                }
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(()),
            }
        }
    }

    /// The results that a report should have, and what they follow from.
    fn wanted(&self, namespace: &str, before: &Value) -> (Known, Value) {
        let mut known = self.findings.known(namespace);
        known.candidate = self.candidate();
        let results = json!(merged(namespace, before, &known));
        (known, results)
    }

    /// Brings the reports of a namespace up to date.
    async fn write_of(&self, namespace: &str) -> Result<(), String> {
        let mut known = None;
        for kinds in self.kinds.iter() {
            let (resource, api) = match namespace {
                "" => (
                    &kinds.of_cluster,
                    Api::all_with(self.client.clone(), &kinds.of_cluster),
                ),
                _ => (
                    &kinds.of_namespace,
                    Api::namespaced_with(self.client.clone(), namespace, &kinds.of_namespace),
                ),
            };
            match self.write_to(&api, resource, namespace).await {
                Ok(written) => known = Some(written),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    // Another replica was faster.
                    self.findings.write(namespace);
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if is_without_namespace(&status) => {
                    self.findings.is_gone(namespace);
                    return Ok(());
                }
                Err(error) => return Err(reason(&error, resource)),
            }
        }
        if let Some(known) = known {
            self.findings.written(namespace, &known);
        }
        Ok(())
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
        let mut report = document(resource, (namespace, &self.name), results);
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
struct Leading<'f>(&'f Findings);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.forget(&OF_LEADER);
    }
}
