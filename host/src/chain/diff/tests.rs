//! What two chains make of a pod, as YAML, and what is told about it.
//!
//! The plugins of a case are lists of writes, which are made by real transactions.

use std::sync::Arc;

use podloom_mutation::{CallFailure, MutatedPod, Note, PluginOutcome, PluginRun, RejectedPod};
use podloom_pod_path::{Access, Transaction};
use serde::Deserialize;
use serde_json::{Value, json};

use super::report::{Words, text_of};
use crate::compare::groups::{Groups, Kept};
use crate::compare::{Difference, Outcome, OwnContainers, outcome};

/// A case: a pod, and two chains.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    pod: Value,
    old: Vec<Plugin>,
    new: Vec<Plugin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plugin {
    name: String,
    #[serde(default)]
    writes: Vec<Call>,
    #[serde(default)]
    notes: Vec<String>,
    denies: Option<String>,
    fails: Option<String>,
    ignored: Option<String>,
}

#[derive(Deserialize)]
enum Call {
    Set(String, Value),
    Insert(String, Value),
    Remove(String),
}

impl Plugin {
    fn run(&self, pod: Value) -> (Value, PluginRun) {
        let access = Arc::new(Access::unrestricted());
        let mut transaction = Transaction::begin(pod, access, [].into());
        for call in &self.writes {
            let done = match call {
                Call::Set(path, value) => transaction.set(path, value.to_string()),
                Call::Insert(path, value) => transaction.insert(path, value.to_string()),
                Call::Remove(path) => transaction.remove(path).map(drop),
            };
            done.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        }
        let outcome = match (&self.denies, &self.fails, &self.ignored) {
            (Some(reason), ..) => PluginOutcome::Denied(reason.clone()),
            (_, Some(failure), _) => PluginOutcome::Failed(CallFailure::Reported(failure.clone())),
            (.., Some(failure)) => PluginOutcome::Ignored(CallFailure::Reported(failure.clone())),
            _ if self.writes.is_empty() => PluginOutcome::Unchanged,
            _ => PluginOutcome::Mutated,
        };
        let (pod, writes) = transaction.commit();
        let run = PluginRun {
            plugin: self.name.clone(),
            version: "1.0.0".to_owned(),
            outcome,
            writes,
            notes: self.notes.iter().map(Note::normal).collect(),
            ..PluginRun::default()
        };
        (pod, run)
    }
}

/// Passes the pod through the plugins, and stamps it.
fn pass(pod: &Value, plugins: &[Plugin], digest: &str) -> Outcome {
    let (mut pod, mut runs) = (pod.clone(), Vec::new());
    for plugin in plugins {
        let (next, run) = plugin.run(pod);
        pod = next;
        let rejection = run.rejection();
        runs.push(run);
        if let Some(rejection) = rejection {
            return outcome(Err(RejectedPod { rejection, runs }));
        }
    }
    pod["metadata"]["annotations"]["podloom.dev/chain"] = json!(digest);
    pod["metadata"]["annotations"]["podloom.dev/mutations"] = json!(format!("[{}]", runs.len()));
    outcome(Ok(MutatedPod {
        pod,
        patch: None,
        chain: Some(digest.to_owned()),
        runs,
    }))
}

#[test]
fn each_case_is_told() {
    insta::glob!("cases/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let case: Case = serde_saphyr::from_str(&text).unwrap();
        let own = OwnContainers::of(&case.pod);
        let compared = || {
            let (old, new) = (
                pass(&case.pod, &case.old, "old"),
                pass(&case.pod, &case.new, "new"),
            );
            Difference::between(&own, old, new)
        };
        let told = [false, true].map(|values| {
            let mut groups = Groups::new(Kept {
                values,
                ..Kept::OF_A_COMMAND
            });
            groups.add("shop", "Pod shop/web", compared());
            let text = text_of(&groups, &[], &Words::OF_CHAINS).unwrap();
            anstream::adapter::strip_str(&text).to_string()
        });
        insta::assert_snapshot!(told.join("---------- with values\n"));
    });
}
