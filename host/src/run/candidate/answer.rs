//! What `/plugins/candidate` answers.

use podloom_mutators::Serving;
use serde_json::{Map, Value, json};

use super::results::{Compared, Results};
use crate::compare::groups::{Group, group};
use crate::run::chain_state::{self, timestamp};

/// The state of the candidate, and what it would have made of the pods. So many were dropped in all.
pub(super) fn of(candidate: &Serving, results: &Results, dropped: u64) -> Value {
    let pair = results.pair();
    let mean = results.mean();
    let groups = results.groups.sorted().into_iter();
    json!({
        "candidate": chain_state::of(candidate),
        "serving": pair.and_then(|pair| pair.serving.as_deref()),
        "since": pair.and_then(|pair| pair.since).and_then(timestamp),
        "pods": pods(results, dropped),
        "meanMilliseconds": mean.map(|mean| mean.as_secs_f64() * 1000.0),
        "groups": groups.map(without_reasons).collect::<Value>(),
        "notListed": results.groups.rest,
    })
}

fn pods(results: &Results, dropped: u64) -> Value {
    let compared = Compared::ALL.map(|it| (it.as_str(), results.count(it)));
    let all = compared
        .into_iter()
        .chain([("dropped", results.dropped(dropped))]);
    let pods = all.map(|(name, count)| (name.to_owned(), count.into()));
    Value::Object(pods.collect::<Map<_, _>>())
}

/// As in the report of `podloom chain diff`.
fn without_reasons(of: &Group) -> Value {
    let mut group = group(of);
    if let Some(fields) = group.as_object_mut() {
        fields.remove("reasons");
        fields.remove("hasMoreReasons");
    }
    group
}

#[cfg(test)]
mod tests;
