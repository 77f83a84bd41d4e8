use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::rollout::reason;
use podloom_api::names::summary;
use podloom_api::{
    ChainRolloutObject, ChainRolloutSpec, ChainRolloutStatus, PassedPods, RolloutDecision,
    RolloutPhase, RolloutReplica, RolloutStep, RolloutVerdict,
};
use serde_json::json;

use super::{Action, TICK, World, plan};
use crate::tally::{Life, Lives};

/// A ChainRollout, and the passes over it: each writes the status until nothing is left to write.
struct Story {
    world: World,
    now: Timestamp,
    said: Vec<(&'static str, String)>,
}

impl Story {
    /// Steps of 10 seconds and 20 pods.
    fn of(percents: &[i32]) -> Self {
        let steps = percents.iter().map(|percent| RolloutStep {
            duration: "10s".to_owned(),
            ..RolloutStep::of(*percent)
        });
        let spec = ChainRolloutSpec {
            steps: steps.collect(),
            ..ChainRolloutSpec::default()
        };
        let metadata = json!({ "name": "main", "uid": "1", "generation": 1 });
        let rollout = json!({ "metadata": metadata, "spec": spec });
        Self {
            world: World {
                rollout: serde_json::from_value::<ChainRolloutObject>(rollout).unwrap(),
                older: None,
                unjudged: Duration::ZERO,
                gone: Vec::new(),
                lives: Lives::default(),
            },
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            said: Vec::new(),
        }
    }

    fn spec(&mut self) -> &mut ChainRolloutSpec {
        &mut self.world.rollout.spec
    }

    fn status(&self) -> ChainRolloutStatus {
        self.world.rollout.status.clone().unwrap_or_default()
    }

    /// A replica says which chains it has, and follows the rollout.
    fn has(&mut self, name: &str, serving: &str, candidate: &str) {
        let status = self.world.rollout.status.get_or_insert_default();
        let rollout = status.rollout;
        let entry = status.replicas.entry(name.to_owned()).or_default();
        let some = |digest: &str| (!digest.is_empty()).then(|| digest.to_owned());
        let is_other = entry.rollout != rollout;
        *entry = RolloutReplica {
            serving: some(serving),
            candidate: some(candidate),
            rollout,
            beats: entry.beats + 1,
            counts: if is_other {
                <_>::default()
            } else {
                entry.counts
            },
        };
    }

    /// A replica had so many more pods pass the candidate, or tried it on them in the first step.
    fn passes(&mut self, name: &str, pods: i64, denied: i64) {
        let status = self.world.rollout.status.get_or_insert_default();
        let is_tried = status.percent == 0;
        let entry = status.replicas.entry(name.to_owned()).or_default();
        let counts = &mut entry.counts;
        let of = match is_tried {
            true => &mut counts.tried,
            false => &mut counts.candidate,
        };
        of.add(PassedPods {
            pods,
            denied,
            failed: 0,
            microseconds: pods * 300,
        });
    }

    /// Passes after a tick.
    fn tick(&mut self) -> &mut Self {
        self.world.unjudged = TICK;
        self.pass()
    }

    fn pass(&mut self) -> &mut Self {
        for _ in 0..5 {
            let plan = plan(&self.world, self.now);
            let notices = plan.notices.into_iter();
            self.said.extend(notices.map(|it| (it.reason, it.note)));
            let Some(Action::WriteStatus(status)) = plan.action else {
                return self;
            };
            let mut rollout = self.world.rollout.clone();
            rollout.status = Some(*status);
            self.world.written(rollout);
        }
        panic!("it writes without end: {:#?}", self.status());
    }

    #[track_caller]
    fn is(&self, phase: RolloutPhase, reason: &str, percent: i32) {
        let status = self.status();
        let seen = (status.phase, status.reason.as_deref(), status.percent);
        assert_eq!(seen, (Some(phase), Some(reason), percent), "{status:#?}");
    }

    /// Which conditions are true.
    fn holds(&self) -> Vec<String> {
        let conditions = self.status().conditions.unwrap_or_default().into_iter();
        let holding = conditions.filter(|it| it.status == "True");
        holding.map(|it| it.type_).collect()
    }

    /// A story in which the first step that gives pods to the candidate has begun.
    fn under_way() -> Self {
        let mut story = Self::of(&[5, 50]);
        story.has("a", "old", "new");
        story.has("b", "old", "new");
        story.pass();
        story.has("a", "old", "new");
        story.has("b", "old", "new");
        story.tick();
        story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
        story
    }
}

#[test]
fn a_good_candidate_comes_to_serve_step_by_step() {
    let mut story = Story::of(&[0, 5, 50]);
    story.pass();
    story.is(RolloutPhase::Waiting, reason::NO_REPLICAS, 0);
    assert_eq!(story.holds(), [summary::RECONCILING]);
    story.has("a", "old", "");
    story.pass();
    story.is(RolloutPhase::Waiting, reason::NO_CANDIDATE, 0);
    assert_eq!(story.holds(), [summary::READY]);
    story.has("a", "old", "old");
    story.pass();
    story.is(RolloutPhase::Waiting, reason::SAME_CHAIN, 0);
    assert_eq!(story.holds(), [summary::READY]);
    story.has("b", "old", "new");
    story.pass();
    story.is(RolloutPhase::Waiting, reason::REPLICAS_DIFFER, 0);
    story.has("a", "old", "new");
    story.pass();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 0);
    assert_eq!(story.status().shares, []);
    assert_eq!(story.holds(), [summary::RECONCILING]);

    // Until both follow, no time counts.
    story.has("a", "old", "new");
    story.tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 0);
    assert_eq!(story.status().judged_seconds, 0);
    story.has("b", "old", "new");
    // The time is over, and the pods are missing.
    story.tick().tick().tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 0);
    assert_eq!(story.status().judged_seconds, 15);
    story.passes("a", 12, 0);
    story.passes("b", 8, 0);
    story.tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
    assert_eq!(story.status().progress.as_deref(), Some("2/3"));
    // The pods of a step before do not count for the next.
    story.tick().tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
    story.passes("a", 20, 0);
    // A new leader looks around first.
    story.pass();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
    story.tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 50);
    // The pods are there first.
    story.passes("b", 20, 0);
    story.tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 50);
    story.tick();
    story.is(RolloutPhase::Completed, reason::ALL_STEPS, 100);
    assert_eq!(story.holds(), [summary::READY]);
    let status = story.status();
    assert_eq!(
        (status.candidate_pods.reviewed, status.tried.pods),
        (40, 20)
    );
    let reasons: Vec<_> = story.said.iter().map(|(reason, _)| *reason).collect();
    let begun = reason::STEP_BEGUN;
    assert_eq!(reasons, [begun, begun, begun, begun, reason::ALL_STEPS]);
}

#[test]
fn what_became_the_chain_proper_is_a_chain_like_any_other() {
    let mut story = Story::under_way();
    story.spec().decision = Some(RolloutDecision {
        candidate: "new".to_owned(),
        verdict: RolloutVerdict::Promote,
    });
    story.tick();
    story.is(RolloutPhase::Completed, reason::PROMOTED, 100);
    story.has("a", "new", "new");
    story.tick();
    assert_eq!(
        story.status().shares.len(),
        1,
        "b has it still as its candidate"
    );
    story.has("b", "new", "new");
    story.tick();
    // Nothing changes.
    story.is(RolloutPhase::Completed, reason::PROMOTED, 100);
    assert_eq!(story.status().shares, []);
    // The one before it may take its place again.
    story.has("a", "old", "new");
    story.has("b", "old", "new");
    story.tick();
    story.is(RolloutPhase::Aborted, reason::SERVING_CHANGED, 0);
}

#[test]
fn a_bad_candidate_is_taken_back_once_and_for_all() {
    let mut story = Story::under_way();
    story.passes("a", 10, 2);
    story.passes("b", 10, 1);
    story.pass();
    story.is(RolloutPhase::RolledBack, reason::DENIED, 0);
    assert_eq!(story.status().shares, []);
    assert_eq!(story.holds(), [summary::STALLED]);
    assert_eq!(story.status().candidate_pods.denied, 3);
    // Better numbers change nothing, nor does a restart of the replicas.
    story.passes("a", 1000, 0);
    story.tick().tick();
    story.has("a", "old", "");
    story.tick();
    story.has("a", "old", "new");
    story.tick();
    story.is(RolloutPhase::RolledBack, reason::DENIED, 0);
    // Until somebody says otherwise, and then once.
    story.spec().attempt = 1;
    story.pass();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
    assert_eq!(story.status().rollout, 2);
    story.has("a", "old", "new");
    story.has("b", "old", "new");
    story.passes("a", 10, 5);
    story.tick();
    story.is(RolloutPhase::RolledBack, reason::DENIED, 0);
    story.tick();
    story.is(RolloutPhase::RolledBack, reason::DENIED, 0);
    // Another candidate begins by itself.
    story.has("a", "old", "newer");
    story.has("b", "old", "newer");
    story.tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
    assert_eq!(story.status().candidate.as_deref(), Some("newer"));
    // The first one is not forgotten for that.
    story.has("a", "old", "new");
    story.has("b", "old", "new");
    story.tick();
    story.is(RolloutPhase::Waiting, reason::REJECTED, 0);
    assert_eq!(story.status().shares, []);
    story.spec().attempt = 2;
    story.pass();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
    assert_eq!(story.status().rejected, [] as [String; 0]);
}

#[test]
fn a_rollout_is_not_judged_by_the_pods_of_the_one_before() {
    let mut story = Story::under_way();
    story.world.lives.candidate = Life {
        ready: 10,
        unready: 5,
        restarted: 0,
        pods: 15,
    };
    story.tick();
    story.is(RolloutPhase::RolledBack, reason::UNREADY, 0);
    story.spec().attempt = 1;
    // The pass that begins it still knows the pods of the one before.
    story.pass();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
    assert_eq!(story.status().candidate_pods.unready, 0);
}

#[test]
fn nothing_begins_while_it_is_paused() {
    let mut story = Story::of(&[100]);
    story.spec().paused = true;
    story.has("a", "old", "new");
    story.pass();
    story.is(RolloutPhase::Waiting, reason::PAUSED, 0);
    story.spec().paused = false;
    story.pass();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 100);
    story.spec().paused = true;
    story.has("a", "old", "newer");
    story.tick();
    assert_eq!(story.status().candidate.as_deref(), Some("new"));
}

#[test]
fn a_step_that_was_taken_away_holds() {
    let mut story = Story::under_way();
    story.passes("a", 100, 0);
    story.tick().tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 50);
    story.spec().steps.truncate(1);
    story.tick().tick();
    story.is(RolloutPhase::Progressing, reason::INVALID, 50);
}

#[test]
fn the_old_chain_as_the_candidate_ends_it() {
    let mut story = Story::under_way();
    story.has("a", "old", "old");
    story.has("b", "old", "old");
    story.tick();
    story.is(RolloutPhase::Waiting, reason::SAME_CHAIN, 0);
}

#[test]
fn pods_that_live_badly_take_it_back() {
    let mut story = Story::under_way();
    story.world.lives.candidate = Life {
        ready: 10,
        unready: 3,
        restarted: 0,
        pods: 13,
    };
    story.pass();
    story.is(RolloutPhase::RolledBack, reason::UNREADY, 0);
    assert_eq!(story.status().candidate_pods.unready, 3);
}

#[test]
fn a_step_is_held_while_it_is_paused_and_still_judged() {
    let mut story = Story::under_way();
    let seconds = story.status().judged_seconds;
    story.spec().paused = true;
    story.passes("a", 100, 0);
    story.tick().tick().tick();
    story.is(RolloutPhase::Paused, reason::PAUSED, 5);
    assert_eq!(story.status().judged_seconds, seconds);
    story.spec().paused = false;
    story.tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 50);
    story.spec().paused = true;
    story.passes("a", 100, 30);
    story.pass();
    story.is(RolloutPhase::RolledBack, reason::DENIED, 0);
}

#[test]
fn a_replica_without_the_candidate_holds_the_step() {
    let mut story = Story::under_way();
    story.passes("a", 100, 0);
    story.has("b", "old", "");
    story.tick().tick().tick();
    story.is(RolloutPhase::Progressing, reason::REPLICAS_DIFFER, 5);
    let message = story.status().message.unwrap();
    assert_eq!(message, "waits for replicas without this candidate: b");
    story.has("b", "old", "new");
    story.tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 50);
}

#[test]
fn another_serving_chain_ends_it() {
    for is_complete in [false, true] {
        let mut story = Story::under_way();
        if is_complete {
            let decision = RolloutDecision {
                candidate: "new".to_owned(),
                verdict: RolloutVerdict::Promote,
            };
            story.spec().decision = Some(decision);
            story.pass();
            story.is(RolloutPhase::Completed, reason::PROMOTED, 100);
            story.has("a", "third", "new");
        }
        story.has("b", "third", "new");
        story.pass();
        story.is(RolloutPhase::Aborted, reason::SERVING_CHANGED, 0);
        assert_eq!(story.status().shares, []);
        // It is as final as others.
        story.has("a", "third", "new");
        story.tick();
        story.is(RolloutPhase::Aborted, reason::SERVING_CHANGED, 0);
    }
}

#[test]
fn another_candidate_begins_another_rollout() {
    let mut story = Story::under_way();
    story.passes("a", 20, 0);
    story.tick().tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 50);
    story.has("a", "old", "newer");
    story.pass();
    // Until all replicas have it, the old one is held.
    story.is(RolloutPhase::Progressing, reason::REPLICAS_DIFFER, 50);
    story.has("b", "old", "newer");
    story.pass();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 5);
    let status = story.status();
    assert_eq!((status.rollout, status.candidate_pods.reviewed), (2, 0));
}

#[test]
fn a_decision_is_about_one_candidate() {
    for (candidate, verdict, phase, reason, percent) in [
        (
            "newer",
            RolloutVerdict::Abort,
            RolloutPhase::Progressing,
            reason::STEP_BEGUN,
            5,
        ),
        (
            "new",
            RolloutVerdict::Abort,
            RolloutPhase::Aborted,
            reason::ABORTED,
            0,
        ),
        (
            "new",
            RolloutVerdict::Promote,
            RolloutPhase::Completed,
            reason::PROMOTED,
            100,
        ),
    ] {
        let mut story = Story::under_way();
        story.spec().decision = Some(RolloutDecision {
            candidate: candidate.to_owned(),
            verdict,
        });
        story.tick();
        story.is(phase, reason, percent);
    }
}

#[test]
fn a_candidate_that_serves_can_be_given_up() {
    let mut story = Story::under_way();
    let decided = |verdict| {
        Some(RolloutDecision {
            candidate: "new".to_owned(),
            verdict,
        })
    };
    story.spec().decision = decided(RolloutVerdict::Promote);
    story.tick();
    story.is(RolloutPhase::Completed, reason::PROMOTED, 100);
    story.spec().decision = decided(RolloutVerdict::Abort);
    story.tick();
    story.is(RolloutPhase::Aborted, reason::ABORTED, 0);
    // A decision of before is no word for the candidate that was given up.
    story.spec().decision = decided(RolloutVerdict::Promote);
    story.tick();
    story.is(RolloutPhase::Aborted, reason::ABORTED, 0);
}

#[test]
fn only_the_oldest_counts() {
    let mut story = Story::under_way();
    story.world.older = Some("other".to_owned());
    story.pass();
    story.is(RolloutPhase::Waiting, reason::ANOTHER_ROLLOUT, 0);
    assert_eq!(story.status().shares, []);
}

#[test]
fn a_typo_in_the_spec_changes_no_pod() {
    let mut story = Story::under_way();
    let shares = story.status().shares;
    story.spec().steps[1].duration = "ten minutes".to_owned();
    story.passes("a", 100, 0);
    let judgements = story.status().judgements;
    story.tick().tick().tick();
    story.is(RolloutPhase::Progressing, reason::INVALID, 5);
    assert_eq!(story.status().judgements, judgements + 3);
    let status = story.status();
    assert_eq!(status.shares, shares);
    let message = status.message.unwrap();
    assert!(
        message.starts_with("spec.steps[1].duration is \"ten minutes\": "),
        "{message}"
    );
    assert_eq!(story.holds(), [summary::STALLED]);
    story.spec().steps[1].duration = "10s".to_owned();
    story.tick().tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 50);
    // Limits count all the same.
    story.spec().steps[1].duration = "ten minutes".to_owned();
    story.passes("a", 10, 10);
    story.tick();
    story.is(RolloutPhase::RolledBack, reason::DENIED, 0);
}

#[test]
fn what_a_replica_counted_stays_when_it_is_gone() {
    let mut story = Story::under_way();
    story.passes("b", 15, 0);
    story.world.gone = vec!["b".to_owned()];
    story.tick();
    assert_eq!(story.status().candidate_pods.reviewed, 15);
    assert!(!story.status().replicas.contains_key("b"));
    story.passes("a", 5, 0);
    story.tick();
    story.is(RolloutPhase::Progressing, reason::STEP_BEGUN, 50);
}

#[test]
fn a_long_pause_of_the_judge_counts_as_little() {
    let mut story = Story::under_way();
    story.world.unjudged = Duration::from_secs(3600);
    story.pass();
    assert!(story.status().judged_seconds <= 35);
}
