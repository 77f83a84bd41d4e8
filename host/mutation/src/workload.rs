//! The labels by which a workload finds its pods again. No plugin may change them: a workload that does not find its pod makes
//! another one, without end.
//!
//! The webhook reads the workload from the API server, and the command line from a file; both ask here.

use std::sync::Arc;

use serde_json::Value;

/// Returns the keys of the labels by which a workload finds its pods, given its group, its kind and its selector: those that the
/// selector names, and those that the API server or the controller adds by itself.
///
/// The selector is a LabelSelector, or a plain map as in a v1 ReplicationController.
pub fn selected_labels(group: &str, kind: &str, selector: Option<&Value>) -> Arc<[String]> {
    let field = |name: &str| selector.and_then(|selector| selector.get(name));
    let (exact, expressions) = (field("matchLabels"), field("matchExpressions"));
    let is_plain = exact.is_none() && expressions.is_none();
    let exact = if is_plain { selector } else { exact };
    let exact = exact.and_then(Value::as_object).into_iter().flatten();
    let exact = exact.map(|(key, _)| key.as_str());
    let expressions = expressions.and_then(Value::as_array).into_iter().flatten();
    let expressions = expressions.filter_map(|expression| expression.get("key")?.as_str());
    let mut keys: Vec<&str> = added(group, kind).to_vec();
    keys.extend(exact.chain(expressions));
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(str::to_owned).collect()
}

/// The labels that a pod gets from its workload alone, and by which this knows it: a pod without them is replaced again and again.
fn added(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        // In the selector of the Deployment's ReplicaSet.
        ("apps", "Deployment") => &["pod-template-hash"],
        ("apps", "StatefulSet") => &[
            "controller-revision-hash",
            "statefulset.kubernetes.io/pod-name",
        ],
        ("apps", "DaemonSet") => &["controller-revision-hash", "pod-template-generation"],
        // In the selector that the API server generates.
        ("batch", "Job" | "CronJob") => &["batch.kubernetes.io/controller-uid"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::selected_labels;

    #[track_caller]
    fn check(group: &str, kind: &str, selector: &Value, expected: &[&str]) {
        let found = selected_labels(group, kind, Some(selector));
        assert_eq!(*found, *expected, "{kind}");
    }

    #[test]
    fn labels_of_selectors_are_found_once_and_in_order() {
        let both = json!({
            "matchLabels": { "b": "x", "a": "y" },
            "matchExpressions": [{ "key": "c", "operator": "Exists" }, { "key": "a", "operator": "Exists" }],
        });
        check("apps", "ReplicaSet", &both, &["a", "b", "c"]);
        check(
            "",
            "ReplicationController",
            &json!({ "app": "web" }),
            &["app"],
        );
        check(
            "apps",
            "ReplicaSet",
            &json!({ "matchExpressions": [] }),
            &[],
        );
        assert!(selected_labels("apps", "ReplicaSet", None).is_empty());
    }

    #[test]
    fn labels_that_a_controller_adds_are_kept_too() {
        let app = json!({ "matchLabels": { "app": "web" } });
        check("apps", "Deployment", &app, &["app", "pod-template-hash"]);
        let set = [
            "app",
            "controller-revision-hash",
            "statefulset.kubernetes.io/pod-name",
        ];
        check("apps", "StatefulSet", &app, &set);
        let set = ["app", "controller-revision-hash", "pod-template-generation"];
        check("apps", "DaemonSet", &app, &set);
        check(
            "batch",
            "Job",
            &app,
            &["app", "batch.kubernetes.io/controller-uid"],
        );
        check("apps.kruise.io", "StatefulSet", &app, &["app"]);
    }
}
