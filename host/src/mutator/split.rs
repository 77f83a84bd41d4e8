//! Which of two chains a pod passes while a candidate is rolled out, and what came of it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use podloom_api::{PassedPods, RolloutCounts};
use podloom_mutation::{MutatedPod, Operation, PodRejection, PodRequest, RejectedPod};
use podloom_mutators::{CHAIN, Chain, Serving, Slot};
use podloom_rollout::Route;
use podloom_turns::lock;

/// At most so many owners with bad pods are remembered. A limit is reached long before that.
const OWNERS: usize = 10_000;

/// Sends pods through the serving chain or the candidate.
#[derive(Debug)]
pub(crate) struct Split {
    serving: Arc<Slot>,
    candidate: Arc<Slot>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where pods go; none until it is known that anybody passes a candidate.
    route: Option<Arc<Route>>,
    /// Whether the rollout is under way, so that pods are counted.
    is_counted: bool,
    /// Until when the route counts without another judgement; none if it does for ever.
    until: Option<Instant>,
    counts: RolloutCounts,
    /// Hashes of the owners whose pods were counted as denied or failed. A controller tries again and again, and counts once.
    bad: HashSet<(Side, u64)>,
    /// The digest of a candidate that was taken back.
    banned: Option<String>,
}

/// The chains of this process, for those who look at pods that exist. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Chains {
    pub(crate) serving: Arc<Slot>,
    /// None if no candidate may be rolled out.
    pub(crate) split: Option<Arc<Split>>,
}

impl Chains {
    /// What serves now.
    pub(crate) fn in_force(&self) -> InForce {
        match &self.split {
            Some(split) => split.in_force(),
            None => InForce {
                chain: self.serving.serving().chain.clone(),
                is_split: false,
                banned: None,
            },
        }
    }
}

/// What serves now.
#[derive(Debug)]
pub(crate) struct InForce {
    /// The chain that pods of most owners pass; none without a chain.
    pub(crate) chain: Option<Arc<Chain>>,
    /// Whether pods of some owners pass another one.
    pub(crate) is_split: bool,
    /// The digest of a candidate that was taken back.
    pub(crate) banned: Option<String>,
}

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Serving,
    Candidate,
    /// Both were tried on it.
    Both,
}

/// The chain of one pod. It counts what comes of it.
pub(super) struct Picked<'s> {
    pub(super) chain: Arc<Chain>,
    /// None if nobody counts.
    counted: Option<(&'s Split, Arc<Route>, Side, u64)>,
    /// Whether the pod of a session passes a second time: it was counted the first time, and counts again only if that goes wrong.
    is_claim: bool,
    began: Instant,
}

impl Split {
    /// Everybody passes the serving chain at first.
    pub(crate) fn new(serving: Arc<Slot>, candidate: Arc<Slot>) -> Self {
        Self {
            serving,
            candidate,
            state: Mutex::default(),
        }
    }

    /// Goes by another route, and counts from these on if it is of another rollout.
    pub(crate) fn follow(&self, route: Option<Route>, is_counted: bool, first: RolloutCounts) {
        let mut state = lock(&self.state);
        let number = |route: Option<&Route>| route.map(|it| it.rollout);
        if number(state.route.as_deref()) != number(route.as_ref()) {
            state.counts = first;
            state.bad.clear();
        }
        state.route = route.map(Arc::new);
        state.is_counted = is_counted;
    }

    /// Goes by the route until this moment at the latest, or for ever.
    pub(crate) fn follow_until(&self, until: Option<Instant>) {
        lock(&self.state).until = until;
    }

    /// No pod should have passed the candidate with this digest.
    pub(crate) fn ban(&self, digest: Option<String>) {
        lock(&self.state).banned = digest;
    }

    /// What serves now. Other replicas may have a candidate that this one lacks.
    fn in_force(&self) -> InForce {
        let serving = self.serving.serving();
        let all = self.all(&serving);
        let chain = all.clone().or_else(|| serving.chain.clone());
        let state = lock(&self.state);
        let takes_some = state.route.as_ref().is_some_and(|it| it.takes_some());
        let present = chain.as_ref().map(|chain| chain.digest());
        let banned = state.banned.clone();
        InForce {
            is_split: takes_some && all.is_none(),
            banned: banned.filter(|it| Some(it.as_str()) != present),
            chain,
        }
    }

    /// What was counted by then is part of something else now.
    pub(crate) fn forget(&self, counts: RolloutCounts) {
        lock(&self.state).counts.subtract(counts);
    }

    /// Of which rollout how much was counted.
    pub(crate) fn counts(&self) -> (i64, RolloutCounts) {
        let state = lock(&self.state);
        let rollout = state.route.as_ref().map(|it| it.rollout);
        (rollout.unwrap_or_default(), state.counts)
    }

    /// Waits until the first attempt to load the candidate has succeeded or failed.
    pub(crate) async fn attempted(&self) {
        self.candidate.attempted().await;
    }

    /// The digests of both chains.
    pub(crate) fn digests(&self) -> (Option<String>, Option<String>) {
        let digest = |slot: &Slot| Some(slot.serving().chain.as_ref()?.digest().to_owned());
        (digest(&self.serving), digest(&self.candidate))
    }

    /// Counts a pod of this owner that both chains were tried on, by their digests.
    pub(crate) fn tried(&self, (serving, candidate): (&str, &str), owner: &str, compared: &str) {
        let mut state = lock(&self.state);
        let is_ours = state.route.as_ref().is_some_and(|route| {
            (route.serving.as_str(), route.candidate.as_str()) == (serving, candidate)
        });
        if is_ours && state.is_counted {
            let is_bad = (compared == "denied", compared == "failed");
            state.count((Side::Both, hash(owner)), is_bad, Duration::ZERO);
        }
    }

    /// The route, if both of its chains are here: there is never a third one.
    fn route(&self, serving: &Serving) -> Option<(Arc<Route>, Arc<Chain>, bool)> {
        let (route, is_counted) = {
            let state = lock(&self.state);
            let is_over = state.until.is_some_and(|until| Instant::now() >= until);
            let route = state.route.clone().filter(|_| !is_over)?;
            (route, state.is_counted)
        };
        let candidate = self.candidate.serving().chain.clone()?;
        let is_here = serving.chain.as_ref()?.digest() == route.serving
            && candidate.digest() == route.candidate;
        is_here.then_some((route, candidate, is_counted))
    }

    /// Returns the chain of a pod; none if there is no chain.
    pub(super) fn pick(&self, serving: &Serving, request: &PodRequest) -> Option<Picked<'_>> {
        let ours = serving.chain.clone()?;
        let began = Instant::now();
        let Some((route, candidate, is_counted)) = self.route(serving) else {
            return Some(Picked {
                chain: ours,
                counted: None,
                is_claim: false,
                began,
            });
        };
        let labels = (!request.is_namespace_unread).then_some(&request.namespace_labels);
        // A change is judged by the chain that the pod passed, as far as it says so.
        // A session gets its pod by the same chain that has made it.
        let later = request.later.as_ref();
        let is_claim = later.is_some_and(|it| it.operation == Operation::Claim);
        let is_change = later.is_some() && !is_claim;
        let stamp = request.annotations.get(CHAIN).filter(|_| is_change);
        let takes = match (stamp, request.owner.as_str()) {
            (Some(stamp), _) => *stamp == route.candidate && route.takes_some(),
            (None, "") => route.takes_all(),
            (None, owner) => route.takes(owner, labels),
        };
        let (chain, side) = match takes {
            true => (candidate, Side::Candidate),
            false => (ours, Side::Serving),
        };
        // Nobody gets the pod of a dry run, and changes are of pods that passed a chain before.
        let is_counted = is_counted && !request.dry_run && !is_change;
        Some(Picked {
            chain,
            counted: is_counted.then(|| (self, route, side, hash(&request.owner))),
            is_claim,
            began,
        })
    }

    /// Whether pods of all owners pass the candidate, and by its digest.
    pub(super) fn all(&self, serving: &Serving) -> Option<Arc<Chain>> {
        let (route, candidate, _) = self.route(serving)?;
        route.takes_all().then_some(candidate)
    }

    /// Whether pods that passed a chain with this digest need not pass it again, whatever the shares are: who made them may have known
    /// other ones.
    pub(super) fn serves(&self, serving: &Serving, digest: &str) -> bool {
        let route = self.route(serving);
        route.is_some_and(|(route, ..)| route.candidate == digest)
    }

    /// The candidate, if any pod may pass it.
    pub(super) fn some(&self, serving: &Serving) -> Option<Arc<Chain>> {
        let (route, candidate, _) = self.route(serving)?;
        route.takes_some().then_some(candidate)
    }
}

impl Picked<'_> {
    /// Counts what came of the pod.
    pub(super) fn count(&self, result: &Result<MutatedPod, RejectedPod>) {
        let Some((split, route, side, owner)) = &self.counted else {
            return;
        };
        let rejection = result.as_ref().err().map(|it| &it.rejection);
        let flags = match rejection {
            // That the time of the review was over says nothing about the chain.
            Some(PodRejection::Overdue(_) | PodRejection::Unread(_)) => return,
            Some(PodRejection::Denied(_)) => (true, false),
            Some(_) => (false, true),
            None => (false, has_failed(result)),
        };
        if self.is_claim && flags == (false, false) {
            return;
        }
        let mut state = lock(&split.state);
        if state.route.as_ref().map(|it| it.rollout) != Some(route.rollout) {
            return;
        }
        state.count((*side, *owner), flags, self.began.elapsed());
    }
}

/// Whether a plugin failed although the pod was made.
fn has_failed(result: &Result<MutatedPod, RejectedPod>) -> bool {
    use podloom_mutation::PluginOutcome::{Failed, Ignored};
    let mut runs = podloom_mutation::runs(result).iter();
    runs.any(|run| matches!(run.outcome, Failed(_) | Ignored(_)))
}

impl State {
    /// Counts a pod of an owner. One that was denied or failed counts only if it is the first one.
    fn count(
        &mut self,
        (side, owner): (Side, u64),
        (is_denied, has_failed): (bool, bool),
        took: Duration,
    ) {
        let is_bad = is_denied || has_failed;
        let is_first = !is_bad || (self.bad.len() < OWNERS && self.bad.insert((side, owner)));
        if !is_first {
            return;
        }
        let pods = match side {
            Side::Serving => &mut self.counts.serving,
            Side::Candidate => &mut self.counts.candidate,
            Side::Both => &mut self.counts.tried,
        };
        pods.add(PassedPods {
            pods: 1,
            denied: i64::from(is_denied),
            failed: i64::from(has_failed),
            microseconds: i64::try_from(took.as_micros()).unwrap_or(i64::MAX),
        });
    }
}

fn hash(owner: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    owner.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
