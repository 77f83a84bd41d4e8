//! Which differences are one group, and how many are kept.

use podloom_mutation::MutatedPod;
use podloom_pod_path::ChangeKind;
use serde_json::json;

use super::{Groups, Kept};
use crate::compare::{Change, Difference, Outcome, OwnContainers, Verdict, Whose, Writers};

const NAMES_ONLY: Kept = Kept::OF_A_COMMAND;
const GROUPS: usize = NAMES_ONLY.groups;
const LINES: usize = NAMES_ONLY.lines;

fn admitted(pod: serde_json::Value) -> Outcome {
    Ok(MutatedPod {
        pod,
        patch: None,
        chain: None,
        runs: Vec::new(),
    })
}

/// A pod whose containers get a variable with this value.
fn with_variable(containers: &[&str], value: &str) -> Option<Difference> {
    let pod = |env: serde_json::Value| {
        let containers = containers.iter();
        let containers = containers.map(|name| json!({ "name": name, "env": env }));
        json!({ "spec": { "containers": containers.collect::<Vec<_>>() } })
    };
    let (old, new) = (
        pod(json!([])),
        pod(json!([{ "name": "TZ", "value": value }])),
    );
    Difference::between(
        &OwnContainers::of(&old),
        admitted(old.clone()),
        admitted(new),
    )
}

fn denied(reason: &str) -> Option<Difference> {
    let plugins = vec!["strict".to_owned()];
    let reason = Some(reason.to_owned());
    Some(Difference::of(Verdict::DeniedNow, plugins, reason))
}

fn labelled(key: &str) -> Option<Difference> {
    let change = Change {
        kind: ChangeKind::Added,
        path: format!("/metadata/labels/{key}"),
        general: format!("/metadata/labels/{key}"),
        writers: Writers {
            chain: Whose::New,
            plugins: vec!["labels".to_owned()],
        },
        old: None,
        new: Some(json!("x")),
        parents: 0,
    };
    Some(Difference {
        changes: vec![change],
        ..Difference::of(Verdict::Changed, Vec::new(), None)
    })
}

#[test]
fn equal_differences_are_one_group() {
    let mut groups = Groups::new(NAMES_ONLY);
    for number in 0..10 {
        let namespace = format!("n{}", number % 4);
        groups.add(
            &namespace,
            &format!("Pod {number}"),
            with_variable(&["a"], "UTC"),
        );
    }
    groups.add("n0", "Pod same", None);
    let sorted = groups.sorted();
    let [group] = sorted.as_slice() else {
        panic!("{groups:?}")
    };
    assert_eq!((group.tally.pods, group.tally.namespaces()), (10, 4));
    assert_eq!(group.names, ["Pod 0", "Pod 1", "Pod 2"]);
    assert_eq!(
        group.lines[0].paths(),
        ["/spec/containers/[name=a]/env/[name=TZ]"]
    );
    assert_eq!(group.lines[0].values(), Some(1));
    assert_eq!((groups.same.pods, groups.all.pods), (1, 11));
}

/// Each team calls its containers as it likes, and a plugin may write something else into each.
#[test]
fn names_of_containers_and_values_make_no_other_group() {
    let mut groups = Groups::new(NAMES_ONLY);
    groups.add("n", "one", with_variable(&["a"], "UTC"));
    groups.add("n", "two", with_variable(&["b"], "CET"));
    groups.add("n", "three", with_variable(&["c", "d"], "UTC"));
    let sorted = groups.sorted();
    let [group] = sorted.as_slice() else {
        panic!("{groups:?}")
    };
    let [line] = group.lines.as_slice() else {
        panic!("{group:?}")
    };
    assert_eq!(line.paths(), ["/spec/containers/*/env/[name=TZ]"]);
    assert_eq!(line.values(), Some(2));
}

#[test]
fn with_values_only_the_very_same_difference_is_the_same_group() {
    let mut groups = Groups::new(Kept {
        values: true,
        ..NAMES_ONLY
    });
    groups.add("n", "one", with_variable(&["a"], "UTC"));
    groups.add("n", "two", with_variable(&["a"], "CET"));
    groups.add("n", "three", with_variable(&["b"], "UTC"));
    groups.add("n", "four", with_variable(&["a"], "UTC"));
    let names: Vec<_> = groups.sorted().iter().map(|it| it.names.clone()).collect();
    assert_eq!(names, [vec!["one", "four"], vec!["three"], vec!["two"]]);
}

#[test]
fn the_worst_and_largest_groups_come_first() {
    let mut groups = Groups::new(NAMES_ONLY);
    groups.add("n", "changed", labelled("a"));
    for number in 0..3 {
        groups.add("n", &format!("often {number}"), labelled("b"));
    }
    for reason in ["r1", "r2", "r2", "r3", "r4"] {
        groups.add("n", reason, denied(reason));
    }
    let sorted = groups.sorted();
    let ranks: Vec<_> = sorted
        .iter()
        .map(|it| (it.verdict, it.tally.pods))
        .collect();
    assert_eq!(
        ranks,
        [
            (Verdict::DeniedNow, 5),
            (Verdict::Changed, 3),
            (Verdict::Changed, 1)
        ]
    );
    assert_eq!(sorted[0].reasons, ["r1", "r2", "r3"]);
    assert!(sorted[0].has_more_reasons);
}

/// A chain can write something else into each of a million pods. What is denied must still be seen.
#[test]
fn memory_grows_with_neither_pods_nor_differences() {
    let mut groups = Groups::new(NAMES_ONLY);
    for number in 0..5_000 {
        groups.add("n", "x", labelled(&number.to_string()));
    }
    groups.add("n", "x", denied("no"));
    assert_eq!(groups.sorted().len(), GROUPS + 1);
    assert_eq!(groups.sorted()[0].verdict, Verdict::DeniedNow);
    assert_eq!(groups.rest.pods, 5_000 - GROUPS as u64);
    // The values of a group, and the changes of a pod.
    let mut groups = Groups::new(NAMES_ONLY);
    for number in 0..1_000 {
        groups.add("n", "x", with_variable(&["a"], &number.to_string()));
    }
    assert_eq!(groups.sorted()[0].lines[0].values(), None);
    let mut many = labelled("a").unwrap();
    let change = many.changes[0].clone();
    many.changes.extend((0..500).map(|number| {
        let path = format!("/metadata/labels/{number}");
        Change {
            general: path.clone(),
            path,
            ..change.clone()
        }
    }));
    groups.add("n", "x", Some(many));
    let sorted = groups.sorted();
    assert_eq!(
        (sorted[1].lines.len(), sorted[1].more_lines),
        (LINES, 501 - LINES)
    );
}

/// The operator gets pods of everybody, for months.
#[test]
fn the_operator_keeps_less() {
    let mut groups = Groups::new(Kept::OF_THE_OPERATOR);
    groups.add("n", "x", with_variable(&["a", "b", "c"], "UTC"));
    groups.add("n", "x", denied("secret"));
    for number in 0..5_000 {
        groups.add(&number.to_string(), "y", labelled("a"));
    }
    let sorted = groups.sorted();
    let denied = &sorted[0];
    assert_eq!((denied.plugins.len(), denied.reasons.len()), (1, 0));
    assert_eq!(
        (sorted[1].tally.pods, sorted[1].tally.namespaces()),
        (5_000, Kept::OF_THE_OPERATOR.namespaces)
    );
    assert_eq!(sorted[1].names, ["y"]);
    assert_eq!(sorted[2].lines[0].paths().len(), 3);
    let mut many = Groups::new(groups.kept);
    many.add("n", "z", with_variable(&["a", "b", "c", "d"], "UTC"));
    let general = ["/spec/containers/*/env/[name=TZ]"];
    assert_eq!(many.sorted()[0].lines[0].paths(), general);
}
