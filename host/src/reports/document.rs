//! What a report looks like. Both groups that there are for it have the same fields.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Key, Known, MESSAGE, NAME, Note, Policy, results};
use crate::cli::ReportGroup;
use crate::output::short;

/// How many results a report has at most; it then takes less than 200 KiB.
pub(super) const RESULTS: usize = 100;
/// How many of them each policy has at least, if it has as many.
const SHARE: usize = 20;
/// The source of all results, and their category.
const SOURCE: &str = "podloom";
const CATEGORY: &str = "Pod mutation";
/// The label of all reports.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", SOURCE);
/// The property with the digest of the candidate.
const CANDIDATE: &str = "candidate";
/// The rule of the result that stands for those which are too many.
const MORE: &str = "more";

/// The two kinds of a group.
pub(crate) struct Kinds {
    pub(crate) of_namespace: ApiResource,
    pub(crate) of_cluster: ApiResource,
}

impl Kinds {
    pub(crate) fn of(group: ReportGroup) -> Self {
        let (version, kind) = match group {
            ReportGroup::OpenReports => ("v1alpha1", "Report"),
            ReportGroup::WgPolicy => ("v1alpha2", "PolicyReport"),
        };
        let of = |kind: &str| {
            let gvk = GroupVersionKind::gvk(group.as_str(), version, kind);
            ApiResource::from_gvk(&gvk)
        };
        Self {
            of_namespace: of(kind),
            of_cluster: of(&format!("Cluster{kind}")),
        }
    }
}

/// One result of a report.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReportResult {
    source: String,
    category: String,
    policy: String,
    rule: String,
    result: String,
    severity: String,
    #[serde(default)]
    scored: bool,
    message: String,
    timestamp: Time,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Resource>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct Time {
    seconds: i64,
    nanos: i32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
}

/// Returns the results that the report of a namespace should have. What others found is kept unless this process knows better.
pub(crate) fn merged(namespace: &str, before: &Value, known: &Known) -> Vec<ReportResult> {
    let mut all = BTreeMap::new();
    let mut has_more = false;
    for result in results(before) {
        // What cannot be read, somebody else has changed.
        let Ok(result) = ReportResult::deserialize(result) else {
            continue;
        };
        has_more |= result.rule == MORE;
        if let Some((key, note)) = noted(&result)
            && stays(&key, &note, known)
        {
            all.insert(key, note);
        }
    }
    for (key, note) in &known.notes {
        let before = all.get(key);
        // Another replica may have seen more since then.
        let is_outdated = before.is_some_and(|before| before.at > note.at);
        if known.is_note_over(key, note) || is_outdated {
            continue;
        }
        // Of pods that pass, the time says when the last one did; of all others, when it began.
        let is_same = !matches!(key.policy, Policy::Denial | Policy::Candidate)
            && before
                .is_some_and(|it| (&it.message, &it.candidate) == (&note.message, &note.candidate));
        if note.message.is_none() {
            all.remove(key);
        } else if !is_same {
            all.insert(key.clone(), note.clone());
        }
    }
    has_more = all.len() > RESULTS || (has_more && all.len() == RESULTS);
    let results = shared(all).into_iter();
    let results = results.map(|(key, note)| result(namespace, &key, &note));
    results.chain(has_more.then(more)).collect()
}

/// As many as there is room for. Each policy gets its share before another one fills the report.
fn shared(all: BTreeMap<Key, Note>) -> BTreeMap<Key, Note> {
    let mut of_policy: BTreeMap<Policy, usize> = BTreeMap::new();
    let (first, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(key, _)| {
        let number = of_policy.entry(key.policy).or_default();
        *number += 1;
        *number <= SHARE
    });
    first.into_iter().chain(others).take(RESULTS).collect()
}

/// Whether a result stays that this process did not find.
fn stays(key: &Key, note: &Note, known: &Known) -> bool {
    // Another replica may have another candidate, until all have read its directory.
    let is_of_another = key.policy == Policy::Candidate && !known.leads();
    let candidate = match is_of_another {
        true => known.candidate.as_deref(),
        false => note.candidate.as_deref(),
    };
    !known.is_over(key, note.at, candidate) && !known.whole.contains(&key.policy)
}

/// The finding that a result is, without what somebody may have added.
fn noted(result: &ReportResult) -> Option<(Key, Note)> {
    let at = Timestamp::new(result.timestamp.seconds, result.timestamp.nanos).ok()?;
    let candidate = result.properties.get(CANDIDATE);
    let note = Note {
        at,
        message: Some(short(&result.message, MESSAGE, "...").into_owned()),
        candidate: candidate.map(|it| short(it, NAME, "...").into_owned()),
    };
    Some((key(result)?, note))
}

/// Which finding a result is.
fn key(result: &ReportResult) -> Option<Key> {
    use Policy::{Candidate, Chain, Denial, Drift, Rollout};
    let mut policies = [Chain, Rollout, Denial, Drift, Candidate].into_iter();
    let policy = policies.find(|it| name(*it) == result.policy)?;
    let about = result.resources.first();
    let about = about.map(|it| (it.kind.as_str(), it.name.as_str()));
    Some(Key::of(policy, &result.rule, about.unwrap_or_default()))
}

const fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Chain => "chain",
        Policy::Rollout => "rollout",
        Policy::Denial => "denial",
        Policy::Drift => "drift",
        Policy::Candidate => "candidate",
    }
}

fn result(namespace: &str, key: &Key, note: &Note) -> ReportResult {
    let (result, severity) = match (key.policy, key.rule.as_str()) {
        (Policy::Chain, _) => ("error", "high"),
        (Policy::Drift, "incomplete") => ("error", "medium"),
        (Policy::Denial, _) | (Policy::Drift, "missed") => ("fail", "high"),
        (Policy::Rollout, _) | (Policy::Drift, "changed") => ("fail", "medium"),
        (Policy::Drift, _) => ("warn", "low"),
        (Policy::Candidate, _) => ("warn", "medium"),
    };
    let resource = (!key.kind.is_empty()).then(|| Resource {
        api_version: api_version(&key.kind).map(str::to_owned),
        kind: key.kind.clone(),
        namespace: namespace.to_owned(),
        name: key.name.clone(),
    });
    let candidate = note.candidate.iter();
    let candidate = candidate.map(|it| (CANDIDATE.to_owned(), it.clone()));
    ReportResult {
        source: SOURCE.to_owned(),
        category: CATEGORY.to_owned(),
        policy: name(key.policy).to_owned(),
        rule: key.rule.clone(),
        result: result.to_owned(),
        severity: severity.to_owned(),
        scored: result != "warn",
        message: note.message.clone().unwrap_or_default(),
        timestamp: Time {
            seconds: note.at.as_second(),
            nanos: 0,
        },
        resources: resource.into_iter().collect(),
        properties: candidate.collect(),
    }
}

/// Stands for the results that are too many.
fn more() -> ReportResult {
    ReportResult {
        source: SOURCE.to_owned(),
        category: CATEGORY.to_owned(),
        policy: "report".to_owned(),
        rule: MORE.to_owned(),
        result: "skip".to_owned(),
        severity: "info".to_owned(),
        scored: false,
        message: format!(
            "there are more findings than the {RESULTS} that are listed; podloom drift lists all that concern pods which exist"
        ),
        timestamp: Time {
            seconds: 0,
            nanos: 0,
        },
        resources: Vec::new(),
        properties: BTreeMap::new(),
    }
}

/// Of the kinds that most pods belong to; of others it is not known here.
fn api_version(kind: &str) -> Option<&'static str> {
    match kind {
        "Pod" | "ReplicationController" => Some("v1"),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => Some("apps/v1"),
        "Job" | "CronJob" => Some("batch/v1"),
        "ChainRollout" => Some("chain.podloom.dev/v1alpha1"),
        _ => None,
    }
}

/// Returns the report of a namespace, of the cluster if that has no name.
pub(crate) fn document(
    resource: &ApiResource,
    (namespace, name): (&str, &str),
    results: &Value,
) -> DynamicObject {
    let mut summary = BTreeMap::from(["pass", "fail", "warn", "error", "skip"].map(|it| (it, 0)));
    for result in results.as_array().into_iter().flatten() {
        let number = result["result"].as_str().and_then(|it| summary.get_mut(it));
        if let Some(number) = number {
            *number += 1;
        }
    }
    let mut data = json!({ "summary": summary, "results": results });
    let mut report = DynamicObject::new(name, resource);
    report
        .labels_mut()
        .insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    if !namespace.is_empty() {
        report.metadata.namespace = Some(namespace.to_owned());
        data["scope"] = json!({ "apiVersion": "v1", "kind": "Namespace", "name": namespace });
    }
    report.data = data;
    report
}
