use std::collections::BTreeSet;

use serde_json::json;

use super::super::refusal;
use crate::fixtures::{kind, list, one, pod};
use crate::frozen;

#[track_caller]
fn check(protected: &[&str], max_objects: usize, expected: Option<&str>) {
    let pods = ["a", "b", "c"].map(|name| {
        let mut pod = pod(name, name);
        if protected.contains(&name) {
            pod["metadata"]["annotations"] = json!({ "cleaner.vtex.dev/protect": "true" });
        }
        pod
    });
    let targets = [list("pods", &pods, true)];
    let doomed = frozen::plan(&targets, "own").unwrap();
    let found = refusal(&doomed, max_objects, &BTreeSet::new());
    assert_eq!(found.map(|it| it.message).as_deref(), expected);
}

#[test]
fn as_many_objects_as_allowed_are_fine() {
    check(&[], 3, None);
}

#[test]
fn more_objects_than_allowed_are_refused() {
    check(
        &[],
        2,
        Some(
            "3 objects would be deleted, more than spec.deletion.maxObjects allows: 2. Raise it, or select fewer",
        ),
    );
}

#[test]
fn one_protected_object_protects_all() {
    check(
        &["b"],
        3,
        Some(
            "the Pod b of target pods is annotated cleaner.vtex.dev/protect: \"true\"; remove the annotation to let it be deleted",
        ),
    );
    check(
        &["b", "c"],
        3,
        Some(
            "the Pod b of target pods is annotated cleaner.vtex.dev/protect: \"true\" and 1 more; remove the annotation to let it be \
             deleted",
        ),
    );
}

#[test]
fn only_the_value_true_protects() {
    let mut pod = pod("a", "1");
    pod["metadata"]["annotations"] = json!({ "cleaner.vtex.dev/protect": "false" });
    let targets = [list("pods", &[pod], true)];
    let doomed = frozen::plan(&targets, "own").unwrap();
    assert_eq!(refusal(&doomed, 1, &BTreeSet::new()), None);
}

/// A flag may allow namespaces as targets. It allows no way around the other flag.
#[test]
fn an_excluded_namespace_is_no_target() {
    let excluded = BTreeSet::from(["kube-system".to_owned()]);
    for (name, is_refused) in [("kube-system", true), ("team-a", false)] {
        let namespace = json!({ "metadata": { "name": name, "uid": "1" } });
        let mut target = one("ns", namespace, true);
        target.kind = kind("Namespace", "namespaces");
        let targets = [target];
        let doomed = frozen::plan(&targets, "own").unwrap();
        let found = refusal(&doomed, 1, &excluded);
        let expected = is_refused.then_some("TargetProtected");
        assert_eq!(found.map(|it| it.reason), expected);
    }
}
