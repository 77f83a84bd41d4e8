//! What the statuses of all our kinds have in common: conditions, and that they are written only when they differ.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;
use serde_json::{Map, Value};

/// One condition as it is now, before it has a time.
pub(crate) struct Fact {
    pub(crate) type_: &'static str,
    pub(crate) status: Truth,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Makes the conditions of facts: ours in their order, then what others wrote.
///
/// A condition keeps the time of its last transition as long as its status is the same.
pub(crate) fn conditions(
    seen: Option<&Vec<Condition>>,
    facts: Vec<Fact>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let seen = seen.map(Vec::as_slice).unwrap_or_default();
    let foreign: Vec<Condition> = seen
        .iter()
        .filter(|old| facts.iter().all(|fact| fact.type_ != old.type_))
        .cloned()
        .collect();
    let ours = facts.into_iter().map(|fact| {
        let status = fact.status.as_str();
        let since = seen
            .iter()
            .find(|old| old.type_ == fact.type_ && old.status == status)
            .map_or_else(|| time(now), |old| old.last_transition_time.clone());
        Condition {
            type_: fact.type_.to_owned(),
            status: status.to_owned(),
            reason: fact.reason,
            message: fact.message,
            last_transition_time: since,
            observed_generation: generation,
        }
    });
    ours.chain(foreign).collect()
}

/// Returns a time as Kubernetes keeps it: in whole seconds.
pub(crate) fn time(now: Timestamp) -> Time {
    let seconds = Timestamp::from_second(now.as_second());
    Time(seconds.unwrap_or(now))
}

/// Returns the merge-patch that makes one status of another: the fields that differ, null for those that go.
///
/// Not server-side apply: that leaves what another writer once set and we do not, so the status would differ for ever.
pub(crate) fn difference<S: Serialize>(
    seen: Option<&S>,
    wanted: &S,
) -> Result<Map<String, Value>, serde_json::Error> {
    let fields = |status: &S| match serde_json::to_value(status)? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    };
    let mut seen = seen.map_or_else(|| Ok(Map::new()), fields)?;
    let mut patch = fields(wanted)?;
    patch.retain(|key, value| seen.remove(key).as_ref() != Some(value));
    // What is left of it is not wanted any more.
    let gone = seen.into_iter().map(|(key, _)| (key, Value::Null));
    patch.extend(gone);
    Ok(patch)
}

#[cfg(test)]
mod tests;
