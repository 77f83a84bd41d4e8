use podloom_api::{
    ChainRollout, ChainRolloutObject, ChainRolloutSpec, ChainRolloutStatus, RolloutVerdict,
};
use serde_json::{Value, json};

use super::{decided, is_over, report, resumed};

fn rollout(status: Value) -> ChainRolloutObject {
    let mut rollout = ChainRolloutObject::new(
        "main",
        &ChainRollout::resource(),
        ChainRolloutSpec::default(),
    );
    rollout.status = Some(serde_json::from_value(status).unwrap());
    rollout
}

#[test]
fn a_report_shows_both_chains() {
    let digest = |letter: &str| letter.repeat(64);
    let pods = json!({ "reviewed": 12, "meanMicroseconds": 310, "ready": 10, "restarted": 1 });
    let rollout = rollout(json!({
        "phase": "Progressing", "progress": "2/4", "percent": 5, "rollout": 2, "tried": { "pods": 230, "denied": 2 },
        "message": "the next step begins after 9m30s more, and 8 more pods",
        "serving": digest("a"), "candidate": digest("b"),
        "candidatePods": pods, "servingPods": { "reviewed": 230, "denied": 1 },
        "replicas": {
            "one": { "serving": digest("a"), "candidate": digest("b"), "rollout": 2 },
            "two": { "serving": digest("a"), "rollout": 1 },
        },
    }));
    let status: ChainRolloutStatus = rollout.status.clone().unwrap();
    let shown = anstream::adapter::strip_str(&report(&rollout, &status)).to_string();
    assert_eq!(
        shown,
        "\
main Progressing 2/4: the next step begins after 9m30s more, and 8 more pods
candidate bbbbbbbbbbbb: up to 5 percent of owners; serving chain aaaaaaaaaaaa: all others

pods            candidate    serving
reviewed               12        230
denied                  0          1
failed                  0          0
mean in us            310          0
ready                  10          0
unready                 0          0
restarted               1          0

tried on both chains: 230 pods; denied by the candidate alone: 2; failed in it alone: 0

replica one: serving aaaaaaaaaaaa, candidate bbbbbbbbbbbb
replica two: serving aaaaaaaaaaaa, candidate none, does not follow yet
"
    );
}

#[test]
fn a_decision_names_the_candidate_and_needs_one() {
    let of = |phase: &str, verdict| {
        let status = json!({ "phase": phase, "candidate": "b", "attempt": 3 });
        decided(&rollout(status), verdict).ok()
    };
    let promote = json!({ "decision": { "candidate": "b", "verdict": "Promote" } });
    assert_eq!(of("Paused", RolloutVerdict::Promote), Some(promote));
    assert_eq!(of("RolledBack", RolloutVerdict::Promote), None);
    assert_eq!(of("Waiting", RolloutVerdict::Abort), None);
    assert!(of("Completed", RolloutVerdict::Abort).is_some());
}

#[test]
fn a_verdict_about_another_candidate_or_an_older_spec_is_not_the_last_word() {
    let status =
        json!({ "phase": "Completed", "candidate": "bcd", "observedGeneration": 2, "attempt": 1 });
    let mut rollout = rollout(status);
    rollout.metadata.generation = Some(2);
    rollout.spec.attempt = 1;
    let over = |rollout: &ChainRolloutObject, candidate| {
        is_over(rollout, &rollout.status.clone().unwrap(), candidate)
    };
    assert!(over(&rollout, None) && over(&rollout, Some("bc")));
    assert!(!over(&rollout, Some("c")));
    rollout.spec.attempt = 2;
    assert!(!over(&rollout, None));
    rollout.spec.attempt = 1;
    rollout.metadata.generation = Some(3);
    assert!(!over(&rollout, None));
}

#[test]
fn a_candidate_that_was_taken_back_begins_again() {
    let of = |phase: &str| {
        let status = json!({ "phase": phase, "candidate": "b", "attempt": 3 });
        resumed(&rollout(status)).ok().unwrap()
    };
    assert_eq!(of("Paused"), json!({ "paused": false }));
    let again = json!({ "paused": false, "attempt": 4, "decision": null });
    assert_eq!(of("RolledBack"), again);
    let status = json!({ "phase": "Waiting", "reason": "Rejected", "attempt": 3 });
    assert_eq!(resumed(&rollout(status)).ok(), Some(again));
}
