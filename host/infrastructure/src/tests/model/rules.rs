//! The rules of a Cluster that no history may break: what ARCHITECTURE.md says of Clusters, and what users rely on.
//!
//! They rest on what `--im-settle` says: a request is carried out within this time, here two ticks. A create request that comes later makes
//! an infrastructure that is *late*: somebody may have given up on it, so it may be a second one, or nobody's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::infrastructure::{FINALIZER, annotation};
use podloom_model::process::Heard;
use podloom_model::store::{Store, Stored};
use podloom_model::{RestRule, Rule, Sent, TICK, Write};
use serde_json::Value;

use super::around::{OTHERS, kubeconfig};
use super::manager::{INFRASTRUCTURES, call_of, is_change, is_there, name, size, state};
use super::{CLUSTERS, SECRETS};
use crate::template::machines;

/// What is known of the requests to IM.
#[derive(Clone, Default, Hash)]
pub(super) struct Calls {
    /// What was recorded last of each Cluster, by its UID.
    recorded: BTreeMap<String, Record>,
    /// The ids that IM gave, each with the UID of its Cluster.
    made: BTreeSet<(String, String)>,
}

#[derive(Clone, Hash)]
struct Record {
    kind: String,
    at: String,
    /// How many requests came of it.
    sent: u8,
}

impl Calls {
    /// Notes what a write changed.
    pub(super) fn note(&mut self, write: &Write<'_>) {
        if let Some((before, Some(after))) = write.patched(CLUSTERS)
            && before.value["status"]["operation"] != after.value["status"]["operation"]
            && let Some(at) = after.value["status"]["operation"]["lastCallAt"].as_str()
        {
            let kind = after.value["status"]["operation"]["kind"].as_str();
            let record = Record {
                kind: kind.unwrap_or_default().to_owned(),
                at: at.to_owned(),
                sent: 0,
            };
            self.recorded.insert(after.uid().to_owned(), record);
        }
        if let Some(made) = write.created(INFRASTRUCTURES) {
            let made = (made.meta("name").to_owned(), owner(made).to_owned());
            self.made.insert(made);
        }
        if let Some(changed) = changed(write)
            && !write.is_late()
            && let Some(record) = self.recorded.get_mut(owner(changed))
        {
            record.sent += 1;
        }
    }
}

/// The rules about each write.
pub(super) const OF_WRITES: &[(&str, Rule<Calls>)] = &[
    ("what_is_others_is_left_alone", what_is_others_is_left_alone),
    ("a_change_is_recorded_first", a_change_is_recorded_first),
    (
        "a_cluster_has_one_infrastructure",
        a_cluster_has_one_infrastructure,
    ),
    ("only_own_ids_are_shown", only_own_ids_are_shown),
    (
        "nothing_is_made_for_what_is_gone",
        nothing_is_made_for_what_is_gone,
    ),
    ("the_finalizer_goes_last", the_finalizer_goes_last),
    ("no_template_comes_too_early", no_template_comes_too_early),
    ("no_foreign_secret_is_written", no_foreign_secret_is_written),
];

/// The rules about a state at rest.
pub(super) const AT_REST: &[(&str, RestRule)] = &[
    ("what_is_wanted_is_there", what_is_wanted_is_there),
    ("nothing_is_left", nothing_is_left),
];

/// The UID of the Cluster that an infrastructure was made for; empty if it is no Cluster's.
fn owner(infrastructure: &Stored) -> &str {
    name(infrastructure)
        .strip_prefix("podloom-")
        .unwrap_or_default()
}

/// The infrastructure that a request changes.
fn changed<'a>(write: &Write<'a>) -> Option<&'a Stored> {
    let effect = write.effect;
    let is_change = effect.asked.resource == INFRASTRUCTURES && effect.asked.writes();
    let changed = effect.before.as_deref().or(effect.after.as_deref());
    changed.filter(|_| is_change)
}

/// The Cluster of a UID.
fn cluster_of<'a>(store: &'a Store, uid: &str) -> Option<&'a Stored> {
    // It is the resource, its name and a number.
    let name = uid.strip_prefix(CLUSTERS)?.strip_prefix('-')?;
    let name = name.trim_end_matches(|char: char| char.is_ascii_digit());
    let cluster = store.get(CLUSTERS, name)?;
    (cluster.uid() == uid).then_some(&**cluster)
}

/// The infrastructures of a Cluster that are there.
fn of_cluster(store: &Store, uid: &str) -> Vec<Arc<Stored>> {
    let all = store.all(INFRASTRUCTURES);
    let ours = all.values();
    ours.filter(|it| owner(it) == uid && is_there(it, store.now))
        .cloned()
        .collect()
}

fn is_late(infrastructure: &Stored) -> bool {
    infrastructure.value["late"] == true
}

fn has_finalizer(cluster: &Stored) -> bool {
    cluster.finalizers().any(|it| it == FINALIZER)
}

/// How long ago a time in a status was.
fn age(at: &Value, now: Timestamp) -> Option<Duration> {
    let at: Timestamp = at.as_str()?.parse().ok()?;
    Some(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

fn a_change_is_recorded_first(write: &Write<'_>, calls: &Calls) -> Option<String> {
    let changed = changed(write).filter(|_| !write.is_late())?;
    let call = call_of(&write.effect.asked);
    let is_recorded = calls.recorded.get(owner(changed)).is_some_and(|record| {
        let is_kind = match call {
            "create" => record.kind == "Create",
            "delete" => record.kind == "Delete",
            _ => record.kind != "Delete",
        };
        let age = age(&Value::from(record.at.as_str()), write.store.now);
        is_kind && record.sent == 1 && age.is_some_and(|it| it < TICK)
    });
    (!is_recorded).then(|| format!("{call} of {} is in no status", name(changed)))
}

/// Two may be there if a request came late, so this is also about how long a request without an answer is waited for.
fn a_cluster_has_one_infrastructure(write: &Write<'_>, _: &Calls) -> Option<String> {
    let made = write.created(INFRASTRUCTURES)?;
    let others = of_cluster(write.store, owner(made));
    let other = others.iter().find(|it| !is_late(it) && !is_late(made))?;
    Some(format!("{} has {} already", name(made), other.meta("name")))
}

fn what_is_others_is_left_alone(write: &Write<'_>, _: &Calls) -> Option<String> {
    let changed = changed(write)?;
    owner(changed)
        .is_empty()
        .then(|| format!("{} is no Cluster's", changed.meta("name")))
}

fn only_own_ids_are_shown(write: &Write<'_>, calls: &Calls) -> Option<String> {
    let (before, after) = write.patched(CLUSTERS)?;
    let id = |it: &Stored| it.value["status"]["clusterId"].as_str().map(str::to_owned);
    let after = after?;
    let shown = id(after).filter(|it| Some(it) != id(before).as_ref())?;
    let pair = (shown, after.uid().to_owned());
    (!calls.made.contains(&pair)).then(|| format!("Cluster {} has {}", pair.1, pair.0))
}

/// And nothing before the finalizer that sees to it that it goes again.
fn nothing_is_made_for_what_is_gone(write: &Write<'_>, _: &Calls) -> Option<String> {
    if write.is_late() {
        return None;
    }
    if let Some(secret) = write.created(SECRETS) {
        let lives = write.sent == Sent::InTime(Heard::Lives);
        return (!lives).then(|| format!("nobody said that {} lives", secret.controller()));
    }
    let uid = owner(write.created(INFRASTRUCTURES)?);
    match cluster_of(write.store, uid) {
        None => Some(format!("Cluster {uid} is gone")),
        Some(cluster) => {
            (!has_finalizer(cluster)).then(|| format!("Cluster {uid} has no finalizer"))
        }
    }
}

fn the_finalizer_goes_last(write: &Write<'_>, _: &Calls) -> Option<String> {
    let (before, after) = write.patched(CLUSTERS)?;
    if !has_finalizer(before) || after.is_some_and(has_finalizer) {
        return None;
    }
    let left = of_cluster(write.store, before.uid());
    let left = left.iter().find(|it| !is_late(it))?;
    Some(format!("{} is there", left.meta("name")))
}

/// IM would make surplus machines.
fn no_template_comes_too_early(write: &Write<'_>, _: &Calls) -> Option<String> {
    let before = changed(write).filter(|_| is_change(&write.effect.asked))?;
    (state(before) == "pending").then(|| format!("{} is pending", before.meta("name")))
}

fn no_foreign_secret_is_written(write: &Write<'_>, _: &Calls) -> Option<String> {
    let (before, _) = write.patched(SECRETS)?;
    let is_own = cluster_of(write.store, before.controller())
        .is_some_and(|it| kubeconfig(it.meta("name")) == before.meta("name"));
    (!is_own).then(|| format!("{} is of {}", before.meta("name"), before.controller()))
}

fn what_is_wanted_is_there(store: &Store) -> Option<String> {
    let clusters = store.all(CLUSTERS);
    clusters.values().find_map(|cluster| {
        let status = &cluster.value["status"];
        let ours = of_cluster(store, cluster.uid());
        // Both are for people to mend.
        if status["clusterId"] == OTHERS || ours.iter().any(|it| is_late(it)) {
            return None;
        }
        lacks(store, cluster, ours.first().map(|it| &**it))
            .map(|what| format!("Cluster {} has {what}: {status}", cluster.uid()))
    })
}

/// What a Cluster lacks.
fn lacks(store: &Store, cluster: &Stored, has: Option<&Stored>) -> Option<&'static str> {
    let (status, wanted) = (&cluster.value["status"], &cluster.value["spec"]["tosca"]);
    let Some(has) = has else {
        return Some("no infrastructure");
    };
    if status["clusterId"] != *has.meta("name") || status["state"] != "CONNECTING" {
        return Some("another id or state");
    }
    let mut template = has.value["template"].clone();
    template.as_object_mut()?.remove("metadata");
    if template != *wanted || status["lastAppliedTosca"] != *wanted {
        return Some("another template");
    }
    if state(has) != "configured" || size(has) != machines(wanted) {
        return Some("other machines");
    }
    let is_right = |secret: &Stored| {
        let mark = secret.value["metadata"]["annotations"][annotation::OPERATION].as_str();
        let is_of_it = mark.is_some_and(|it| it.starts_with(has.meta("name")));
        is_of_it && secret.controller() == cluster.uid()
    };
    let secret = store.get(SECRETS, &kubeconfig(cluster.meta("name")));
    match secret.is_some_and(|it| is_right(it)) {
        true => None,
        false => Some("no kubeconfig"),
    }
}

fn nothing_is_left(store: &Store) -> Option<String> {
    let clusters = store.all(CLUSTERS);
    let mut deleted = clusters.values().filter(|it| it.is_deleted());
    // One with an id that is not its own waits for somebody to remove it.
    if let Some(stays) = deleted.find(|it| it.value["status"]["clusterId"] != OTHERS) {
        return Some(format!("Cluster {} does not go", stays.uid()));
    }
    let all = store.all(INFRASTRUCTURES);
    let mut left = all
        .iter()
        .filter(|(id, it)| *id != OTHERS && !is_late(it) && cluster_of(store, owner(it)).is_none());
    if let Some((id, _)) = left.next() {
        return Some(format!("{id} has no Cluster"));
    }
    let secrets = store.all(SECRETS);
    let mut owned = secrets.values().filter(|it| !it.controller().is_empty());
    let left = owned.find(|it| cluster_of(store, it.controller()).is_none())?;
    Some(format!("Secret {} has no Cluster", left.meta("name")))
}
