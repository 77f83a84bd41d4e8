//! What probes of Infrastructure Managers and clouds found, in memory: after a restart all are probed again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use podloom_api::names::infrastructure::reason;
use podloom_engine::backoff::jittered;
use podloom_engine::conditions::{ConditionStatus, NewCondition};
use podloom_engine::events::Notice;
use podloom_engine::plan::later;
use podloom_turns::lock;

use super::im::{Failure, FailureKind};
use super::resolve::{SecretKey, Unresolved};

/// How often a provider is probed.
const INTERVAL: Duration = Duration::from_mins(1);
/// How often it is probed while something is wrong.
const AGAIN: Duration = Duration::from_secs(15);

/// How often a Cloud is asked for its quotas.
const QUOTAS: Duration = Duration::from_mins(5);
/// How long each further Cloud of a provider delays the others.
const EACH: Duration = Duration::from_secs(5);

/// What one request of a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It was answered as it should be.
    Yes,
    /// It was not, for this reason and with this sentence.
    No(&'static str, String),
    /// That cannot be said, for this reason and with this sentence.
    Unclear(&'static str, String),
}

impl Found {
    /// Returns what a failure of a request means, if the request was about whether credentials are accepted.
    pub(crate) fn of(failure: &Failure) -> Self {
        let message = failure.message.clone();
        match failure.kind {
            FailureKind::CredentialsRejected | FailureKind::NotGranted => {
                Self::No(reason::CREDENTIALS_REJECTED, message)
            }
            FailureKind::Unreachable => Self::No(reason::UNREACHABLE, message),
            FailureKind::ReadOnly => Self::Unclear(reason::READ_ONLY, message),
            // Our own limit, or a server that is busy, says nothing.
            FailureKind::Limited | FailureKind::Conflict => Self::Unclear(reason::UNKNOWN, message),
            _ => Self::No(reason::UNREACHABLE, message),
        }
    }

    /// Returns the same about something that a missing Secret keeps from being found out.
    pub(crate) fn missing(unresolved: &Unresolved) -> Self {
        Self::No(unresolved.reason, unresolved.message.clone())
    }

    /// Returns a condition; `yes` is its reason and message if it is true.
    pub(crate) fn condition(
        &self,
        type_: &'static str,
        (reason, message): (&'static str, &str),
    ) -> NewCondition {
        match self {
            Self::Yes => NewCondition::new(type_, ConditionStatus::True, reason, message),
            Self::No(reason, message) => {
                NewCondition::new(type_, ConditionStatus::False, reason, message.as_str())
            }
            Self::Unclear(reason, message) => {
                NewCondition::new(type_, ConditionStatus::Unknown, reason, message.as_str())
            }
        }
    }
}

/// What a probe depends on besides the server: if it changes, it is time for another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// The generations of the objects.
    pub(crate) generations: Vec<Option<i64>>,
    /// The versions of their Secrets; none of those that are missing or may not be read.
    pub(crate) secrets: BTreeMap<SecretKey, Option<String>>,
    /// Of a Cloud: whether its provider is ready.
    pub(crate) is_provider_ready: bool,
}

/// A probe, and when the next one is due.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Probe<F> {
    /// What was found.
    pub(crate) found: F,
    /// What it depends on.
    pub(crate) basis: Basis,
    /// When the next one is due.
    pub(crate) due: Timestamp,
}

/// The latest probe of each object, by UID. Cheap to clone; all clones share them.
pub(crate) struct Probes<F>(Arc<Mutex<HashMap<String, Probe<F>>>>);

impl<F: Clone> Probes<F> {
    /// Returns the latest probe of an object.
    pub(crate) fn get(&self, uid: &str) -> Option<Probe<F>> {
        lock(&self.0).get(uid).cloned()
    }

    /// Remembers a probe of an object.
    pub(crate) fn put(&self, uid: &str, probe: Probe<F>) {
        lock(&self.0).insert(uid.to_owned(), probe);
    }

    /// Forgets all objects but these.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.0).retain(|uid, _| is_there(uid));
    }
}

impl<F> Clone for Probes<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F> Default for Probes<F> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<F> Probe<F> {
    /// Returns whether it is time for another one.
    pub(crate) fn is_due(&self, basis: &Basis, now: Timestamp) -> bool {
        self.basis != *basis || self.due <= now
    }
}

/// Returns when the next probe of a provider is due, plus at most a tenth: sooner if something is wrong.
pub(crate) fn next_probe(now: Timestamp, is_well: bool) -> Timestamp {
    let wait = if is_well { INTERVAL } else { AGAIN };
    later(now, jittered(wait))
}

/// Returns when a Cloud is asked for its quotas again, plus at most a tenth: the later, the more Clouds its provider has.
pub(crate) fn next_quotas(now: Timestamp, clouds: usize, is_well: bool) -> Timestamp {
    let clouds = u32::try_from(clouds).unwrap_or(u32::MAX);
    let wait = if is_well { QUOTAS } else { INTERVAL };
    later(now, jittered(wait.max(EACH.saturating_mul(clouds))))
}

/// Returns the Event about a condition that is false now, and was not or for another reason.
pub(crate) fn changed_to_false(
    before: Option<&Vec<Condition>>,
    type_: &str,
    now: &Found,
) -> Option<Notice> {
    let Found::No(reason, message) = now else {
        return None;
    };
    let mut before = before.into_iter().flatten();
    let is_known =
        before.any(|it| it.type_ == type_ && it.status == "False" && it.reason == *reason);
    (!is_known).then(|| Notice::warning(reason, message.as_str()))
}

/// Returns the UIDs of objects.
pub(crate) fn uids<K: Resource>(objects: &[Arc<K>]) -> HashSet<String> {
    let uids = objects.iter().filter_map(|it| it.meta().uid.clone());
    uids.collect()
}

#[cfg(test)]
mod tests;
