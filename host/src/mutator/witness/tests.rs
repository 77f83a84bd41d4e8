use std::sync::Arc;
use std::time::Instant;

use podloom_mutation::{PodRejection, PodRequest, RejectedPod};
use podloom_mutators::Slot;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use super::{KIBIBYTES, QUEUE, Seen, Witness};
use crate::mutator::tests::chain_without_plugins;
use crate::mutator::{ChainMutator, NoChainPolicy};

struct Watched {
    mutator: ChainMutator,
    witness: Arc<Witness>,
    seen: Receiver<Seen>,
    dropped: Counter,
}

/// A mutator whose pods somebody wants to see.
fn watched(candidate: Slot) -> Watched {
    let dropped = Counter::default();
    let (witness, seen) = Witness::new(Arc::new(candidate), dropped.clone());
    let witness = Arc::new(witness);
    let mut mutator = ChainMutator::of(Some(chain_without_plugins()));
    mutator.witness = Some(Arc::clone(&witness));
    Watched {
        mutator,
        witness,
        seen,
        dropped,
    }
}

fn loaded() -> Slot {
    let slot = Slot::default();
    slot.swap(Arc::new(chain_without_plugins()));
    slot
}

async fn pass(mutator: &ChainMutator, pod: Value) {
    let request = PodRequest {
        deadline: Some(Instant::now()),
        wants_patch: true,
        namespace: "shop".to_owned(),
        ..PodRequest::default()
    };
    let mutated = mutator.pass(pod, request).await.unwrap();
    assert!(mutated.is_ok());
}

#[tokio::test]
async fn a_pod_is_seen_before_and_after_the_chain() {
    let mut watched = watched(loaded());
    let pod = json!({ "spec": { "nodeName": "n" } });
    pass(&watched.mutator, pod.clone()).await;
    let seen = watched.seen.try_recv().unwrap();
    assert_eq!(seen.before, pod);
    assert_eq!(seen.request.namespace, "shop");
    assert_eq!(seen.request.deadline, None, "nobody waits for it");
    let after = seen.result.unwrap();
    assert_eq!((&after.chain, after.patch), (&seen.chain, None));
    assert!(after.pod["metadata"]["annotations"]["podloom.dev/chain"].is_string());
    assert_eq!(watched.dropped.get(), 0);
}

/// There is nothing to compare, so nothing is dropped either.
#[tokio::test]
async fn without_a_candidate_nothing_is_kept() {
    let mut watched = watched(Slot::default());
    pass(&watched.mutator, json!({})).await;
    assert!(watched.seen.try_recv().is_err());
    assert_eq!(watched.dropped.get(), 0);
}

/// An API server that asks twice about a pod would hide what the candidate leaves out.
#[tokio::test]
async fn a_pod_that_has_a_stamp_was_seen_before() {
    let mut watched = watched(loaded());
    let annotations = json!({ "podloom.dev/chain": "sha256:1" });
    let pod = json!({ "metadata": { "annotations": annotations } });
    pass(&watched.mutator, pod).await;
    assert!(watched.seen.try_recv().is_err());
    assert_eq!(watched.dropped.get(), 0);
}

#[tokio::test]
async fn a_pod_without_a_chain_that_serves_is_not_seen() {
    let mut watched = watched(loaded());
    watched.mutator = ChainMutator {
        no_chain_policy: NoChainPolicy::Reject,
        witness: watched.mutator.witness,
        ..ChainMutator::of(None)
    };
    let result = watched.mutator.pass(json!({}), PodRequest::default());
    assert!(result.await.unwrap().is_err());
    assert!(watched.seen.try_recv().is_err());
    watched.mutator.no_chain_policy = NoChainPolicy::PassThrough;
    pass(&watched.mutator, json!({})).await;
    assert_eq!(watched.seen.try_recv().unwrap().chain, None);
}

#[tokio::test]
async fn what_has_no_place_is_dropped_at_once() {
    let mut watched = watched(loaded());
    for _ in 0..QUEUE + 5 {
        pass(&watched.mutator, json!({})).await;
    }
    assert_eq!(watched.dropped.get(), 5);
    for _ in 0..QUEUE {
        assert!(watched.seen.try_recv().is_ok());
    }
    pass(&watched.mutator, json!({})).await;
    assert!(watched.seen.try_recv().is_ok());
    assert_eq!(watched.dropped.get(), 5);
}

#[tokio::test]
async fn what_waits_takes_bounded_memory() {
    let mut watched = watched(loaded());
    // The pod, and the pod after the chain.
    let third = "x".repeat((KIBIBYTES << 10) / 6 + 1000);
    for _ in 0..3 {
        pass(&watched.mutator, json!({ "spec": third })).await;
    }
    assert_eq!(watched.dropped.get(), 1);
    for _ in 0..2 {
        assert!(watched.seen.try_recv().is_ok());
    }
    assert!(watched.seen.try_recv().is_err());
    assert_eq!(watched.witness.memory.available_permits(), KIBIBYTES);
    assert_eq!(watched.witness.queue.capacity(), QUEUE);
}

/// Whether there was enough time says nothing about the chain.
#[test]
fn a_pod_whose_time_was_over_is_dropped() {
    let mut watched = watched(loaded());
    let overdue = PodRejection::Overdue("too late".to_owned());
    for rejection in [overdue, PodRejection::Denied("no".to_owned())] {
        let look = watched.witness.look(&json!({}), &PodRequest::default());
        look.unwrap()
            .hand_on(None, &Err(RejectedPod::from(rejection)));
    }
    let seen = watched.seen.try_recv().unwrap();
    let rejection = seen.result.unwrap_err().rejection;
    assert_eq!(rejection, PodRejection::Denied("no".to_owned()));
    assert!(watched.seen.try_recv().is_err());
    assert_eq!(watched.dropped.get(), 1);
}
