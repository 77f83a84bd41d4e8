//! What the statuses of all our kinds have in common: conditions, and that they are written only when they differ.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// One condition as it is now, before it has a time.
pub struct NewCondition {
    /// Its type, in CamelCase.
    pub type_: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word, in CamelCase.
    pub reason: String,
    /// A sentence for people, without secrets.
    pub message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl ConditionStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Makes the conditions of findings: ours in their order, then what others wrote.
///
/// A condition keeps the time of its last transition as long as its status is the same.
pub fn conditions(
    seen: Option<&Vec<Condition>>,
    findings: Vec<NewCondition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let seen = seen.map(Vec::as_slice).unwrap_or_default();
    let foreign: Vec<Condition> = seen
        .iter()
        .filter(|old| findings.iter().all(|finding| finding.type_ != old.type_))
        .cloned()
        .collect();
    let ours = findings.into_iter().map(|finding| {
        let status = finding.status.as_str();
        let since = seen
            .iter()
            .find(|old| old.type_ == finding.type_ && old.status == status)
            .map_or_else(|| time(now), |old| old.last_transition_time.clone());
        Condition {
            type_: finding.type_.to_owned(),
            status: status.to_owned(),
            reason: finding.reason,
            message: finding.message,
            last_transition_time: since,
            observed_generation: generation,
        }
    });
    ours.chain(foreign).collect()
}

/// Returns a time as Kubernetes keeps it: in whole seconds.
pub fn time(now: Timestamp) -> Time {
    let seconds = Timestamp::from_second(now.as_second());
    Time(seconds.unwrap_or(now))
}

/// Returns the merge-patch (RFC 7396) that makes one status of another: the fields that differ, at any depth, and null for those that
/// go. A list is written as a whole.
///
/// Not server-side apply: that leaves what another writer once set and we do not, so the status would differ for ever.
///
/// # Errors
///
/// Returns an error if a status cannot be written as JSON.
pub fn difference<S: Serialize>(
    seen: Option<&S>,
    wanted: &S,
) -> Result<Map<String, Value>, serde_json::Error> {
    let fields = |status: &S| match serde_json::to_value(status)? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    };
    let seen = seen.map_or_else(|| Ok(Map::new()), fields)?;
    Ok(differing(seen, fields(wanted)?))
}

fn differing(mut seen: Map<String, Value>, wanted: Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, wanted) in wanted {
        match (seen.remove(&key), wanted) {
            (Some(seen), wanted) if seen == wanted => {}
            (Some(Value::Object(seen)), Value::Object(wanted)) => {
                patch.insert(key, Value::Object(differing(seen, wanted)));
            }
            // A null in a merge-patch removes, so one that is wanted is the same as none.
            (_, wanted) => {
                patch.insert(key, wanted);
            }
        }
    }
    // What is left of it is not wanted any more.
    patch.extend(seen.into_iter().map(|(key, _)| (key, Value::Null)));
    patch
}

/// Puts what was written into the status that the API server answered, where the answer lacks it: that happens where the CRD lacks
/// fields that we write, and they would be written for ever. What others wrote meanwhile stays as it is.
pub(super) fn keep_dropped<S>(
    answered: &mut Option<S>,
    before: Option<&S>,
    wanted: &S,
    metadata: &ObjectMeta,
) where
    S: Clone + PartialEq + Serialize + DeserializeOwned,
{
    if answered.as_ref() == Some(wanted) {
        return;
    }
    let Some(kept) = kept(answered.as_ref(), before, wanted) else {
        return;
    };
    tracing::warn!(
        namespace = metadata.namespace,
        name = metadata.name,
        "the API server drops fields of the status that was written, install our CRDs"
    );
    *answered = Some(kept);
}

/// What was answered and what was written, if the answer does not have all of it.
fn kept<S>(answered: Option<&S>, before: Option<&S>, wanted: &S) -> Option<S>
where
    S: Clone + Serialize + DeserializeOwned,
{
    let patch = difference(before, wanted).ok()?;
    let answered = serde_json::to_value(answered).ok()?;
    let mut kept = answered.clone();
    json_patch::merge(&mut kept, &Value::Object(patch));
    (kept != answered).then(|| serde_json::from_value(kept).unwrap_or_else(|_| wanted.clone()))
}

#[cfg(test)]
mod tests;
