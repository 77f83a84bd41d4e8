mod answer;

use std::time::Duration;

use podloom_pod_path::ChangeKind;
use serde_json::json;

use super::{Pair, Results, TEXT, compared};
use crate::compare::{Change, Difference, Verdict, Whose, Writers};

const MILLISECOND: Duration = Duration::from_millis(1);

fn pair(serving: &str, candidate: &str) -> Option<Pair> {
    Some(Pair {
        serving: Some(serving.to_owned()),
        candidate: candidate.to_owned(),
        since: None,
    })
}

fn changed(path: &str) -> Difference {
    let change = Change {
        kind: ChangeKind::Added,
        path: path.to_owned(),
        general: path.to_owned(),
        writers: Writers {
            chain: Whose::New,
            plugins: vec!["labels".to_owned()],
        },
        old: None,
        new: Some(json!("hunter2")),
        parents: 0,
    };
    Difference {
        changes: vec![change],
        ..Difference::of(Verdict::Changed, Vec::new(), None)
    }
}

#[track_caller]
fn check(verdict: Verdict, expected: &str) {
    let difference = Difference::of(verdict, Vec::new(), None);
    assert_eq!(compared(Some(&difference)), expected);
}

#[test]
fn what_would_refuse_pods_that_are_created_today_is_counted_apart() {
    assert_eq!(compared(None), "same");
    check(Verdict::DeniedNow, "denied");
    check(Verdict::FailsNow, "failed");
    check(Verdict::IgnoredNow, "failed");
    check(Verdict::RejectedOtherwise, "different");
    check(Verdict::AllowedNow, "different");
    check(Verdict::FailsNoMore, "different");
    check(Verdict::Changed, "different");
    check(Verdict::WarnedOtherwise, "different");
}

#[test]
fn another_chain_on_either_side_starts_again() {
    let mut results = Results::default();
    results
        .of(pair("one", "two"), 3)
        .add("n", "a", None, MILLISECOND);
    let other = Some(changed("/metadata/labels/a"));
    results
        .of(pair("one", "two"), 5)
        .add("n", "b", other, MILLISECOND * 3);
    assert_eq!(results.counts["same"], 1);
    assert_eq!(results.counts["different"], 1);
    assert_eq!(results.dropped_before, 3);
    assert_eq!(results.mean(), Some(MILLISECOND * 2));
    for next in [pair("one", "three"), pair("two", "three"), None] {
        results.of(next, 7).add("n", "a", None, MILLISECOND);
        assert_eq!(results.counts["different"], 0);
        assert_eq!(results.groups.all.pods, 1);
        assert!(results.groups.is_empty());
        assert_eq!(results.dropped_before, 7);
    }
}

/// The webhook sees pods that the API server has not checked: a name in them may be as long as the pod.
#[test]
fn paths_and_names_are_cut() {
    let mut results = Results::default();
    let long = "ü".repeat(100_000);
    let changed = changed(&format!("/metadata/labels/{long}"));
    results.add("n", &long, Some(changed), MILLISECOND);
    let groups = results.groups.sorted();
    let (name, path) = (&groups[0].names[0], groups[0].lines[0].paths()[0]);
    for text in [name.as_str(), path] {
        assert!(text.len() <= TEXT + 3 && text.ends_with("ü..."), "{text}");
    }
}

/// A comparison may end after another candidate was loaded: the results of that have begun.
#[test]
fn late_comparisons_end_no_results_of_later_chains() {
    let earlier = pair("one", "two").unwrap();
    let mut results = Results::default();
    results.of(Some(earlier.clone()), 3);
    assert!(results.still_of(&earlier).is_some());
    results.of(pair("one", "three"), 5);
    assert!(results.still_of(&earlier).is_none());
    assert_eq!(results.dropped_before, 5);
}
