use std::sync::Arc;
use std::time::{Duration, Instant};

use podloom_api::{ChainRolloutStatus, PassedPods, RolloutCounts, RolloutShare};
use podloom_mutation::{MutatedPod, PodMutator, PodRejection, PodRequest, RejectedPod};
use podloom_mutators::{Chain, Slot};
use podloom_rollout::Route;
use serde_json::json;

use super::Split;
use crate::mutator::ChainMutator;
use crate::mutator::tests::logs::{chain_of, plugin_that_logs};

/// A chain that changes nothing; what it may write gives it a digest of its own.
fn chain(name: &str) -> Arc<Chain> {
    let allowed = format!("/metadata/labels/{name}");
    Arc::new(chain_of(&plugin_that_logs(), &allowed))
}

struct Two {
    mutator: ChainMutator,
    split: Arc<Split>,
    candidate: Arc<Slot>,
}

impl Two {
    fn new() -> Self {
        let mut mutator = ChainMutator::of(None);
        let candidate: Arc<Slot> = Arc::default();
        mutator.slot.swap(chain("old"));
        candidate.swap(chain("new"));
        let split = Split::new(Arc::clone(&mutator.slot), Arc::clone(&candidate));
        let split = Arc::new(split);
        mutator.split = Some(Arc::clone(&split));
        Self {
            mutator,
            split,
            candidate,
        }
    }

    fn digest(slot: &Slot) -> String {
        slot.serving().chain.as_ref().unwrap().digest().to_owned()
    }

    /// Goes by a rollout with this share, which began with the chains that are here now.
    fn share(&self, rollout: i64, percent: i32) {
        self.share_from(rollout, percent, RolloutCounts::default());
    }

    /// The same, if this replica had counted so much before.
    fn share_from(&self, rollout: i64, percent: i32, counts: RolloutCounts) {
        let status = ChainRolloutStatus {
            serving: Some(Self::digest(&self.mutator.slot)),
            candidate: Some(Self::digest(&self.candidate)),
            rollout,
            shares: vec![RolloutShare {
                percent,
                namespace_selector: None,
            }],
            ..ChainRolloutStatus::default()
        };
        self.split.follow(Route::of(&status), true, counts);
    }

    /// Which chain a pod of this owner passes.
    async fn passes(&self, owner: &str) -> String {
        let request = PodRequest {
            kind: "Pod",
            owner: owner.to_owned(),
            ..PodRequest::default()
        };
        let pod = json!({ "metadata": { "name": "a" } });
        let mutated = self.mutator.mutate(pod, request).await.ok().unwrap();
        mutated.chain.unwrap()
    }
}

#[tokio::test]
async fn a_pod_passes_the_candidate_only_while_both_chains_are_those_of_the_rollout() {
    let two = Two::new();
    let (old, new) = (Two::digest(&two.mutator.slot), Two::digest(&two.candidate));
    assert_ne!(old, new);
    assert_eq!(
        two.passes("Deployment/a/b").await,
        old,
        "there is no rollout"
    );
    two.share(1, 100);
    assert_eq!(two.passes("Deployment/a/b").await, new);
    assert_eq!(two.passes("").await, new, "all do");
    assert_eq!(two.mutator.chain(), Some(new.clone()));
    assert!(two.mutator.serves(&old) && two.mutator.serves(&new));
    // Another candidate is here than the one of the rollout, then another serving chain: never a third chain.
    two.candidate.swap(chain("newer"));
    assert_eq!(two.passes("Deployment/a/b").await, old);
    two.candidate.swap(chain("new"));
    two.mutator.slot.swap(chain("other"));
    let other = Two::digest(&two.mutator.slot);
    assert_eq!(two.passes("Deployment/a/b").await, other);
    assert!(!two.mutator.serves(&new));
    two.mutator.slot.swap(chain("old"));
    assert_eq!(two.passes("Deployment/a/b").await, new);
    two.split.follow(None, false, RolloutCounts::default());
    assert_eq!(two.passes("Deployment/a/b").await, old);
}

#[tokio::test]
async fn what_belongs_to_nobody_comes_last() {
    let two = Two::new();
    let (old, new) = (Two::digest(&two.mutator.slot), Two::digest(&two.candidate));
    two.share(1, 99);
    assert_eq!(two.passes("").await, old);
    assert_eq!(two.mutator.chain(), Some(old));
    two.share(1, 100);
    assert_eq!(two.passes("").await, new);
}

#[tokio::test]
async fn without_a_judgement_everybody_passes_the_serving_chain_after_a_while() {
    let two = Two::new();
    let (old, new) = (Two::digest(&two.mutator.slot), Two::digest(&two.candidate));
    two.share(1, 100);
    let now = Instant::now();
    two.split
        .follow_until(Some(now + Duration::from_secs(3600)));
    assert_eq!(two.passes("Pod/a/b").await, new);
    two.split.follow_until(Some(now));
    assert_eq!(two.passes("Pod/a/b").await, old);
    two.split.follow_until(None);
    assert_eq!(two.passes("Pod/a/b").await, new);
}

#[tokio::test]
async fn pods_are_counted_by_the_chain_that_they_passed() {
    let two = Two::new();
    two.share(1, 100);
    two.passes("Pod/a/b").await;
    two.share(1, 0);
    two.passes("Pod/a/b").await;
    two.passes("Pod/a/c").await;
    let (rollout, counts) = two.split.counts();
    assert_eq!(
        (rollout, counts.candidate.pods, counts.serving.pods),
        (1, 1, 2)
    );
    // Those of another rollout begin with what this replica counted before it restarted.
    let before = RolloutCounts {
        candidate: PassedPods {
            pods: 7,
            ..PassedPods::default()
        },
        ..RolloutCounts::default()
    };
    two.share_from(2, 100, before);
    assert_eq!(two.split.counts().1.candidate.pods, 7);
    two.passes("Pod/a/b").await;
    two.share_from(2, 100, before);
    assert_eq!(
        two.split.counts().1.candidate.pods,
        8,
        "of the same one, nothing begins again"
    );
    two.split.forget(before);
    assert_eq!(two.split.counts().1.candidate.pods, 1);
}

#[test]
fn what_says_nothing_about_a_chain_is_not_counted() {
    let two = Two::new();
    two.share(1, 100);
    let request = PodRequest {
        owner: "Pod/a/b".to_owned(),
        ..PodRequest::default()
    };
    let count = |request: &PodRequest, result: Result<MutatedPod, PodRejection>| {
        let serving = two.mutator.slot.serving();
        let picked = two.split.pick(&serving, request).unwrap();
        picked.count(&result.map_err(RejectedPod::from));
        let counts = two.split.counts().1.candidate;
        (counts.pods, counts.denied, counts.failed)
    };
    let pod = || Ok(MutatedPod::untouched(json!({})));
    assert_eq!(count(&request, pod()), (1, 0, 0));
    let denied = || Err(PodRejection::Denied("no".to_owned()));
    assert_eq!(count(&request, denied()), (2, 1, 0));
    // A controller tries again and again.
    assert_eq!(count(&request, denied()), (2, 1, 0));
    let other = PodRequest {
        owner: "Pod/a/c".to_owned(),
        ..request.clone()
    };
    let broken = PodRejection::Broken("it traps".to_owned());
    assert_eq!(count(&other, Err(broken)), (3, 1, 1));
    let late = PodRejection::Overdue("late".to_owned());
    assert_eq!(count(&request, Err(late)), (3, 1, 1));
    let dry = PodRequest {
        dry_run: true,
        ..request
    };
    assert_eq!(count(&dry, pod()), (3, 1, 1));
}
