//! Whose pods belong together: a rollout gives all of them the same chain.

use serde_json::Value;

/// The labels by which a ReplicaSet tells its pods from those of its siblings: of a Deployment, and of argoproj/argo-rollouts. The name
/// of the ReplicaSet is that of its owner, a dash, and the value.
const TEMPLATE_HASHES: [&str; 2] = ["pod-template-hash", "rollouts-pod-template-hash"];

/// Returns whose pod it is, as `Kind/namespace/name`: its controller's; of a ReplicaSet, that of the Deployment that made it; of a pod
/// without a controller, its own.
///
/// Nothing is asked of the API server, so all replicas of the operator give the same answer at any time. The name counts, not the UID: a
/// Deployment that is created again stays where it was. Whoever writes a pod can make it seem another's, and so choose one of the two
/// chains.
///
/// ```
/// use podloom_mutation::owner_of;
/// use serde_json::json;
///
/// let owner = json!({ "kind": "ReplicaSet", "name": "web-5d9c7", "controller": true });
/// let pod = json!({ "metadata": { "labels": { "pod-template-hash": "5d9c7" }, "ownerReferences": [owner] } });
/// assert_eq!(owner_of(&pod, "shop"), "Deployment/shop/web");
/// ```
pub fn owner_of(pod: &Value, namespace: &str) -> String {
    let metadata = pod.get("metadata");
    let field = |name: &str| metadata?.get(name);
    let text = |of: Option<&Value>| of.and_then(Value::as_str).unwrap_or_default().to_owned();
    let owners = field("ownerReferences").and_then(Value::as_array);
    let is_controller = |it: &&Value| it.get("controller") == Some(&Value::Bool(true));
    let Some(controller) = owners.and_then(|owners| owners.iter().find(is_controller)) else {
        let name = match text(field("name")) {
            name if name.is_empty() => text(field("generateName")),
            name => name,
        };
        return named_owner("Pod", namespace, &name);
    };
    let (kind, name) = (text(controller.get("kind")), text(controller.get("name")));
    if kind != "ReplicaSet" {
        return named_owner(&kind, namespace, &name);
    }
    let labels = field("labels");
    let mut hashes = TEMPLATE_HASHES.into_iter();
    let above = hashes.find_map(|label| {
        let hash = labels?.get(label)?.as_str().filter(|it| !it.is_empty())?;
        name.strip_suffix(hash)?.strip_suffix('-')
    });
    match above {
        Some(above) => named_owner("Deployment", namespace, above),
        None => named_owner(&kind, namespace, &name),
    }
}

/// Returns how [`owner_of`] writes the owner of pods.
pub fn named_owner(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::owner_of;

    #[test]
    fn siblings_have_one_owner() {
        let by = |kind: &str, name: &str| json!([{ "kind": "Foo", "name": "x" }, { "kind": kind, "name": name, "controller": true }]);
        let hash = |value: &str| json!({ "pod-template-hash": value });
        for (labels, owners, expected) in [
            (hash("1a"), by("ReplicaSet", "web-1a"), "Deployment/a/web"),
            (hash("2b"), by("ReplicaSet", "web-2b"), "Deployment/a/web"),
            (
                json!({ "rollouts-pod-template-hash": "3" }),
                by("ReplicaSet", "web-3"),
                "Deployment/a/web",
            ),
            // Of no Deployment.
            (json!({}), by("ReplicaSet", "web-1a"), "ReplicaSet/a/web-1a"),
            (hash("b"), by("ReplicaSet", "web-1a"), "ReplicaSet/a/web-1a"),
            (hash(""), by("ReplicaSet", "web-"), "ReplicaSet/a/web-"),
            (
                hash("1a"),
                by("StatefulSet", "db-1a"),
                "StatefulSet/a/db-1a",
            ),
            (
                json!({}),
                json!([{ "kind": "Node", "name": "n" }]),
                "Pod/a/p",
            ),
            (json!({}), Value::Null, "Pod/a/p"),
        ] {
            let metadata = json!({ "name": "p", "labels": labels, "ownerReferences": owners });
            let pod = json!({ "metadata": metadata });
            assert_eq!(owner_of(&pod, "a"), expected, "{pod}");
        }
        let pod = json!({ "metadata": { "generateName": "p-" } });
        assert_eq!(owner_of(&pod, "a"), "Pod/a/p-");
    }
}
