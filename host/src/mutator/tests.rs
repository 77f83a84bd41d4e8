mod lane;

use std::fs;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use podloom_mutation::{PodMutator, PodRejection, PodRequest};
use podloom_mutators::{FailedReload, LoadError, Serving};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::{ChainMutator, ChainPanicked, NoChainPolicy, no_chain, on_blocking_thread};
use crate::load;

pub(in crate::mutator) mod logs;

#[test]
fn without_a_chain_the_error_gives_the_reason() {
    let reason = |serving: &Serving| match no_chain(serving) {
        PodRejection::Broken(reason) => reason,
        other => panic!("{other:?}"),
    };
    let error = LoadError::broken(Path::new("/plugins"), "out of threads");
    let refused = Serving {
        failed: Some(FailedReload {
            at: SystemTime::UNIX_EPOCH,
            error: Arc::new(error),
        }),
        ..Serving::default()
    };
    assert_eq!(
        reason(&refused),
        "no plugin chain is loaded: /plugins: building the chain panicked, which is a bug of podloom: out of threads"
    );
    assert_eq!(
        reason(&Serving::default()),
        "no plugin chain is loaded: it is still being compiled"
    );
}

fn pod() -> Value {
    json!({ "metadata": { "managedFields": [{ "manager": "kubectl" }] }, "ofTomorrow": [1, null] })
}

/// The mutated pod, its patch, and the digest of the chain.
async fn mutate(mutator: &ChainMutator) -> Result<(Value, Value, Option<String>), PodRejection> {
    let mutate = |wants_patch| {
        let request = PodRequest {
            wants_patch,
            ..PodRequest::default()
        };
        mutator.mutate(pod(), request)
    };
    let unasked = mutate(false).await.map_err(|rejected| rejected.rejection)?;
    assert_eq!(unasked.patch, None);
    let mutated = mutate(true).await.map_err(|rejected| rejected.rejection)?;
    assert_eq!(mutated.pod, unasked.pod);
    assert!(mutated.runs.is_empty());
    let patch = serde_json::from_str(&mutated.patch.unwrap()).unwrap();
    Ok((mutated.pod, patch, mutated.chain))
}

#[tokio::test]
async fn without_a_chain_a_pod_passes_unchanged_or_is_rejected() {
    let mut mutator = ChainMutator::of(None);
    assert_eq!(mutate(&mutator).await, Ok((pod(), json!([]), None)));
    mutator.no_chain_policy = NoChainPolicy::Reject;
    let reason = "no plugin chain is loaded: it is still being compiled".to_owned();
    assert_eq!(mutate(&mutator).await, Err(PodRejection::Broken(reason)));
}

#[tokio::test]
async fn what_is_no_pod_is_rejected() {
    let mutator = ChainMutator::of(Some(chain_without_plugins()));
    let rejected = mutator.mutate(json!([]), PodRequest::default()).await;
    let reason = "not a pod: it is not an object".to_owned();
    assert_eq!(
        rejected.unwrap_err().rejection,
        PodRejection::Broken(reason)
    );
}

pub(super) fn chain_without_plugins() -> podloom_mutators::Chain {
    let directory = tempfile::tempdir().unwrap();
    let manifest = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: []\n";
    fs::write(directory.path().join("chain.yaml"), manifest).unwrap();
    let Ok(chain) = load::chain(directory.path()) else {
        panic!("a chain without plugins")
    };
    chain
}

#[tokio::test]
async fn a_pod_that_passed_is_stamped_and_the_patch_contains_the_stamp() {
    let chain = chain_without_plugins();
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

/// The webhook asks what controls a pod only if the chain writes labels, and another chain may be loaded before the pod's turn.
#[tokio::test]
async fn a_pod_whose_selector_is_unread_passes_no_chain_that_writes_labels() {
    let plugin = logs::plugin_that_logs();
    for (allow, is_unread, passes) in [
        ("/metadata/labels", true, false),
        ("/metadata/labels", false, true),
        ("/spec/hostname", true, true),
    ] {
        let mutator = ChainMutator::of(Some(logs::chain_of(&plugin, allow)));
        let request = PodRequest {
            is_selector_unread: is_unread,
            ..PodRequest::default()
        };
        let rejection = mutator.mutate(pod(), request).await.err();
        let is_overdue = rejection.map(|it| matches!(it.rejection, PodRejection::Overdue(_)));
        assert_eq!(is_overdue, (!passes).then_some(true), "{allow}");
    }
}

/// A runtime with one blocking thread.
fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .unwrap()
}

#[test]
fn no_caller_waits_much_longer_than_its_deadline() {
    runtime().block_on(async {
        let deadline = || Some(Instant::now() + Duration::from_millis(20));
        let (open, gate) = mpsc::channel::<()>();
        let started = Instant::now();
        let blocked = on_blocking_thread(deadline(), move || gate.recv().is_ok()).await;
        assert!(matches!(blocked, Ok(None)), "{blocked:?}");
        // The only thread is busy: this work never starts, and does not delay later work.
        let (begun, begins) = mpsc::channel();
        let queued = on_blocking_thread(deadline(), move || begun.send(())).await;
        assert!(matches!(queued, Ok(None)), "{queued:?}");
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(begins.try_recv(), Err(mpsc::TryRecvError::Empty));
        open.send(()).unwrap();
        assert_eq!(on_blocking_thread(None, || 1).await.unwrap(), Some(1));
        assert_eq!(begins.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    });
}

/// A fast chain needs no other thread: the only blocking thread is busy, and pods pass all the same.
#[test]
fn a_fast_chain_runs_on_the_callers_thread() {
    let mutator = ChainMutator::of(Some(chain_without_plugins()));
    runtime().block_on(async {
        let (open, gate) = mpsc::channel::<()>();
        let blocked = tokio::task::spawn_blocking(move || gate.recv().is_ok());
        assert!(mutate(&mutator).await.is_ok());
        open.send(()).unwrap();
        assert!(blocked.await.unwrap());
    });
}

/// After the deadline nobody uses the result.
#[tokio::test]
async fn overdue_work_does_not_start() {
    let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let worked = on_blocking_thread(Some(past), || panic!("it began")).await;
    assert!(matches!(worked, Ok(None::<()>)), "{worked:?}");
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_own() {
    let message = ChainPanicked("a bug".to_owned()).to_string();
    assert!(message.starts_with("the chain panicked"), "{message}");
}
