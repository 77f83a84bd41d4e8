//! Accounts with fewer rights than the operator's own.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::operator::binary;
use crate::scene::Scene;

/// The output of `podloom rbac`: the rights in the operator's table of duties, as manifests.
#[must_use]
pub fn rbac(arguments: &[&str]) -> String {
    let binary = binary().expect("blackbox() runs no test without a binary");
    let printed = Command::new(binary)
        .arg("rbac")
        .args(arguments)
        .output()
        .unwrap();
    assert!(printed.status.success(), "{printed:?}");
    String::from_utf8(printed.stdout).unwrap()
}

/// The rules of all roles of this kind in `podloom rbac`.
fn rules(kind: &str) -> Vec<Value> {
    let printed: Vec<Value> = serde_saphyr::from_multiple(&rbac(&[])).unwrap();
    let roles = printed.iter().filter(|document| document["kind"] == kind);
    let rules = roles.filter_map(|role| role["rules"].as_array());
    rules.flatten().cloned().collect()
}

/// What `podloom rbac` with these arguments grants and an account never did, as `verb resource` or `verb resource/subresource`.
///
/// A right that nothing uses is one that only an attacker has. What the API server itself looks up, without a request, is left out: the
/// right to `update` finalizers, of the admission plugin OwnerReferencesPermissionEnforcement.
#[must_use]
pub fn unused(cluster: &Cluster, user: &str, arguments: &[&str]) -> BTreeSet<String> {
    let printed: Vec<Value> = serde_saphyr::from_multiple(&rbac(arguments)).unwrap();
    let texts = |list: &Value| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten();
        texts
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    let rules = printed.iter().filter_map(|role| role["rules"].as_array());
    let granted = rules.flatten().flat_map(|rule| {
        let resources = texts(&rule["resources"]);
        let pairs = |verb: String| {
            let named = move |resource: &String| format!("{verb} {resource}");
            resources.iter().map(named).collect::<Vec<_>>()
        };
        texts(&rule["verbs"])
            .into_iter()
            .flat_map(pairs)
            .collect::<Vec<_>>()
    });
    let requests = cluster.requests_of(user);
    let used: BTreeSet<String> = requests
        .iter()
        .map(|request| match request.subresource.as_str() {
            "" => format!("{} {}", request.verb, request.resource),
            subresource => format!("{} {}/{subresource}", request.verb, request.resource),
        })
        .collect();
    // A watch begins with its list; the right to list is for API servers that refuse that. So it is not noticed if nobody needs it.
    let is_used = |right: &String| {
        let watched = right.replacen("list ", "watch ", 1);
        used.contains(right) || used.contains(&watched)
    };
    let unused = granted.filter(|right| !is_used(right));
    unused
        .filter(|right| !right.ends_with("/finalizers"))
        .collect()
}

/// A ServiceAccount with the rights in the operator's table of duties, possibly fewer.
pub struct Account {
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    /// Its name, as the API server knows it.
    pub user: String,
}

impl Account {
    /// Creates one in a scene's namespace. `keep` gets every rule of the operator's ClusterRoles; it may change the rule, or return
    /// false to leave it out.
    pub fn new(scene: &Scene, account: &str, mut keep: impl FnMut(&mut Value) -> bool) -> Self {
        let (cluster, namespace) = (&scene.cluster, scene.namespace.as_str());
        let mut rules = rules("ClusterRole");
        rules.retain_mut(|rule| keep(rule));
        let name = format!("{namespace}-{account}");
        let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": { "name": account, "namespace": namespace },
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": name }, "rules": rules,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": { "name": name },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
                "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
            },
        ] });
        cluster.apply_text(&objects.to_string());
        let kubeconfig = cluster
            .plane
            .kubeconfig_for_service_account(namespace, account)
            .unwrap();
        Self {
            kubeconfig,
            user: format!("system:serviceaccount:{namespace}:{account}"),
        }
    }

    /// Adds the right to a Lease in the scene's namespace; the operator has the same right in its own.
    pub fn may_lead(&self, scene: &Scene) {
        let (namespace, account) = self.user.rsplit_once(':').unwrap();
        let (_, namespace) = namespace.rsplit_once(':').unwrap();
        bind(scene, namespace, account, &rules("Role"));
    }
}

/// Gives the account of a duty the right to Leases in the scene's namespace, whatever their names are.
pub fn may_lead(scene: &Scene, namespace: &str, account: &str) {
    let verbs = ["get", "create", "update"];
    let leases =
        json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs });
    bind(scene, namespace, account, &[leases]);
}

fn bind(scene: &Scene, namespace: &str, account: &str, rules: &[Value]) {
    let name = format!("leader-{account}");
    let metadata = json!({ "name": name, "namespace": scene.namespace });
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": metadata, "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
        },
    ] });
    scene.cluster.apply_text(&objects.to_string());
}

/// The flags of a replica whose Lease is in this namespace and ends three seconds after its holder is gone.
#[must_use]
pub fn election(namespace: &str) -> [&str; 6] {
    [
        "--lease-namespace",
        namespace,
        "--lease-name",
        "podloom",
        "--lease-duration",
        "3s",
    ]
}
