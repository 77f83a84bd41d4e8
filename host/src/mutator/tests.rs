use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use podloom_controllers::{Change, Outcome, PluginRun, PodMutator, PodRequest, Refusal, Write};
use podloom_mutators::{FailedReload, Failure, LoadError, Rejected, RejectionCause, Serving};
use podloom_pod_path::{Access, Transaction};
use serde_json::{Value, json};

use super::{ChainMutator, Values, WithoutChain, no_chain, refusal, refused, run_told, within};
use crate::load;

#[track_caller]
fn check(cause: RejectionCause, expected: &Refusal) {
    assert_eq!(refusal(cause), *expected);
}

#[test]
fn what_the_chain_rejects_is_denied_or_broken() {
    let plugin = || "hardening".to_owned();
    check(
        RejectionCause::Denied {
            plugin: plugin(),
            reason: "container browser runs as root".to_owned(),
        },
        &Refusal::Denied("hardening: container browser runs as root".to_owned()),
    );
    check(
        RejectionCause::Failed {
            plugin: plugin(),
            failure: Failure::StackExhausted,
        },
        &Refusal::Broken("hardening: it exhausted its call stack".to_owned()),
    );
    check(
        RejectionCause::NotAPod("it is not an object"),
        &Refusal::Broken("not a pod: it is not an object".to_owned()),
    );
}

#[test]
fn without_a_chain_the_reason_is_told() {
    let told = |serving: &Serving| match no_chain(serving) {
        Refusal::Broken(reason) => reason,
        other => panic!("{other:?}"),
    };
    let error = LoadError::Broken {
        directory: "/plugins".into(),
        message: "out of threads".to_owned(),
    };
    let refused = Serving {
        failed: Some(FailedReload {
            at: SystemTime::UNIX_EPOCH,
            error: Arc::new(error),
        }),
        ..Serving::default()
    };
    assert_eq!(
        told(&refused),
        "no plugin chain is loaded: /plugins: building the chain broke: out of threads"
    );
    assert_eq!(
        told(&Serving::default()),
        "no plugin chain is loaded: it is being compiled"
    );
}

fn pod() -> Value {
    json!({ "metadata": { "managedFields": [{ "manager": "kubectl" }] }, "ofTomorrow": [1, null] })
}

/// What became of the pod, its patch, and whether a chain was named.
async fn mutate(mutator: &ChainMutator) -> Result<(Value, Value, Option<String>), Refusal> {
    let mutated = mutator.mutate(pod(), PodRequest::default()).await;
    let mutated = mutated.map_err(|refused| refused.refusal)?;
    assert!(mutated.runs.is_empty() && mutated.notes().is_empty());
    let patch = serde_json::from_str(&mutated.patch).unwrap();
    Ok((mutated.pod, patch, mutated.chain))
}

#[tokio::test]
async fn without_a_chain_a_pod_passes_as_it_came_or_not_at_all() {
    let mut mutator = ChainMutator::of(None);
    assert_eq!(mutate(&mutator).await, Ok((pod(), json!([]), None)));
    mutator.without_chain = WithoutChain::Refuse;
    let reason = "no plugin chain is loaded: it is being compiled".to_owned();
    assert_eq!(mutate(&mutator).await, Err(Refusal::Broken(reason)));
}

#[tokio::test]
async fn a_pod_that_passed_is_stamped_and_the_patch_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: []\n";
    fs::write(directory.path().join("chain.yaml"), manifest).unwrap();
    let Ok(chain) = load::chain(directory.path()) else {
        panic!("a chain without plugins")
    };
    let digest = chain.digest().to_owned();
    let (pod, patch, chain) = mutate(&ChainMutator::of(Some(chain))).await.unwrap();
    let stamp = json!({ "podloom.dev/mutations": "[]", "podloom.dev/chain": digest });
    assert_eq!(
        pod,
        json!({ "metadata": { "annotations": stamp }, "ofTomorrow": [1, null] })
    );
    assert_eq!(
        patch,
        json!([
            { "op": "add", "path": "/metadata/annotations", "value": {} },
            { "op": "add", "path": "/metadata/annotations/podloom.dev~1mutations", "value": "[]" },
            { "op": "add", "path": "/metadata/annotations/podloom.dev~1chain", "value": digest },
        ])
    );
    assert_eq!(chain, Some(digest));
}

fn run(plugin: &str, outcome: podloom_mutators::Outcome) -> podloom_mutators::PluginRun {
    podloom_mutators::PluginRun {
        plugin: plugin.to_owned(),
        version: "1.0.0".to_owned(),
        sha256: String::new(),
        outcome,
        writes: Vec::new(),
        refused_writes: 1,
        reads: 5,
        refused_reads: 2,
        notes: vec!["a note".to_owned()],
        duration: Duration::ZERO,
        memory: 0,
    }
}

#[test]
fn what_was_refused_has_the_runs_too() {
    use podloom_mutators::Outcome as Of;
    let reason = || "runs as root".to_owned();
    let rejected = Rejected {
        cause: RejectionCause::Denied {
            plugin: "hardening".to_owned(),
            reason: reason(),
        },
        runs: vec![
            run("labels", Of::Ignored(Failure::Overdue)),
            run("hardening", Of::Denied(reason())),
        ],
    };
    let told = |plugin: &str, outcome: Outcome| PluginRun {
        plugin: plugin.to_owned(),
        version: "1.0.0".to_owned(),
        outcome,
        writes: Vec::new(),
        refused_writes: 1,
        refused_reads: 2,
        notes: vec!["a note".to_owned()],
    };
    let refused = refused(rejected, Values::Withheld);
    assert_eq!(
        refused.refusal,
        Refusal::Denied("hardening: runs as root".to_owned())
    );
    let overdue = Failure::Overdue.to_string();
    assert_eq!(
        refused.runs,
        [
            told("labels", Outcome::Ignored(overdue)),
            told("hardening", Outcome::Denied(reason())),
        ]
    );
}

/// A value may be a secret, and what is not passed on cannot be logged.
#[test]
fn values_are_told_for_a_diff_alone() {
    let written = || {
        let access = Access::unrestricted().into();
        let mut pod = Transaction::begin(json!({}), access, [].into());
        pod.set("/metadata/labels/a", "\"b\"".to_owned()).unwrap();
        podloom_mutators::PluginRun {
            writes: pod.commit().1,
            ..run("labels", podloom_mutators::Outcome::Mutated)
        }
    };
    let path = || "/metadata/labels/a".to_owned();
    let withheld = run_told(written(), Values::Withheld).writes;
    assert_eq!(
        withheld,
        [Write {
            path: path(),
            change: None
        }]
    );
    let change = Change {
        old: None,
        new: Some("\"b\"".to_owned()),
    };
    assert_eq!(
        run_told(written(), Values::Told).writes,
        [Write {
            path: path(),
            change: Some(change)
        }]
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_much_longer_than_he_said() {
    let deadline = Instant::now() + Duration::from_secs(1);
    let never = std::future::pending::<()>();
    assert_eq!(within(Some(deadline), never).await, None);
    assert_eq!(within(Some(deadline), async { 1 }).await, Some(1));
    assert_eq!(within(None, async { 1 }).await, Some(1));
}
