//! What the statuses of all kinds have in common: conditions, and patches of what differs.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use podloom_api::names::summary;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A condition as it is now, before it has a transition time.
pub struct NewCondition {
    /// Its type, in CamelCase.
    pub type_: &'static str,
    /// Whether it is true.
    pub status: ConditionStatus,
    /// One word, in CamelCase.
    pub reason: String,
    /// A sentence for people, without secrets.
    pub message: String,
}

impl NewCondition {
    /// Returns a condition.
    pub fn new(
        type_: &'static str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            status,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// What a person wants to know first of an object, and what tools wait for, by the rules of kubernetes-sigs/cli-utils (kstatus).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// It is as its spec wants it.
    Ready,
    /// It is on its way there.
    Reconciling,
    /// It waits for something that is no error.
    Waiting,
    /// Somebody has to change something.
    Stalled,
}

/// What a condition says that is not true. None may be empty.
const ELSEWHERE: &str = "see the condition Ready";

impl Summary {
    /// Returns the conditions Ready, Reconciling and Stalled. All of them, always: one that is left out would stay as it was. The message
    /// is in Ready, and in whatever is true.
    #[must_use]
    pub fn conditions(self, reason: &str, message: &str) -> [NewCondition; 3] {
        let all = [
            (summary::READY, Self::Ready),
            (summary::RECONCILING, Self::Reconciling),
            (summary::STALLED, Self::Stalled),
        ];
        all.map(|(type_, if_it_is)| {
            let status = match self == if_it_is {
                true => ConditionStatus::True,
                false => ConditionStatus::False,
            };
            let is_said = type_ == summary::READY || status == ConditionStatus::True;
            let message = if is_said { message } else { ELSEWHERE };
            NewCondition::new(type_, status, reason, message)
        })
    }
}

/// Whether a condition is true.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It is.
    True,
    /// It is not.
    False,
    /// That is not known.
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

/// Returns the list of conditions for a status: the new ones in their order, then those of other writers.
///
/// A condition keeps its transition time as long as its status is the same.
pub fn conditions(
    seen: Option<&Vec<Condition>>,
    new: Vec<NewCondition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let seen = seen.map(Vec::as_slice).unwrap_or_default();
    let foreign: Vec<Condition> = seen
        .iter()
        .filter(|old| new.iter().all(|new| new.type_ != old.type_))
        .cloned()
        .collect();
    let ours = new.into_iter().map(|new| {
        let status = new.status.as_str();
        let since = seen
            .iter()
            .find(|old| old.type_ == new.type_ && old.status == status)
            .map_or_else(|| time(now), |old| old.last_transition_time.clone());
        Condition {
            type_: new.type_.to_owned(),
            status: status.to_owned(),
            reason: new.reason,
            message: new.message,
            last_transition_time: since,
            observed_generation: generation,
        }
    });
    ours.chain(foreign).collect()
}

/// Returns a time as Kubernetes stores it: in whole seconds.
pub fn time(now: Timestamp) -> Time {
    let seconds = Timestamp::from_second(now.as_second());
    Time(seconds.unwrap_or(now))
}

/// Returns the merge-patch (RFC 7396) from the `seen` status to the `wanted` one: the fields that differ, at any depth, and null for
/// those to remove. A list is written as a whole.
///
/// Server-side apply would not do: it keeps fields that another writer once set and we do not, so the status would differ for ever.
///
/// # Errors
///
/// Returns an error if a status cannot be serialized.
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
            // In a merge-patch, null removes a field, which is what a null in the status means too.
            (_, wanted) => {
                patch.insert(key, wanted);
            }
        }
    }
    // The fields that are left are to be removed.
    patch.extend(seen.into_iter().map(|(key, _)| (key, Value::Null)));
    patch
}

/// Adds to the answered status what was written and is missing in it. The API server drops fields that its CRD does not have; without
/// this, they would be written again for ever. What others wrote meanwhile is kept.
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

/// The answered status with what was written, if the answer lacks some of it.
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
