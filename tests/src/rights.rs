//! Accounts with fewer rights than the operator's own.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::scene::Scene;

/// A ServiceAccount that has what `deploy/` gives the operator, save some.
pub struct Account {
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    /// Its name, as the API server knows it.
    pub user: String,
}

impl Account {
    /// Makes one in a scene's namespace; `keep` sees every rule that the operator's roles have, and may change it.
    pub fn new(scene: &Scene, account: &str, mut keep: impl FnMut(&mut Value) -> bool) -> Self {
        let (cluster, namespace) = (&scene.cluster, scene.namespace.as_str());
        let mut rules = Vec::new();
        for role in ["podloom", "podloom-browsers"] {
            let role = cluster.kubectl(&["get", "clusterrole", role, "--output=json"]);
            let role: Value = serde_json::from_str(&role).unwrap();
            rules.extend(role["rules"].as_array().cloned().unwrap_or_default());
        }
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

    /// Adds the right to a Lease in the scene's namespace, as `deploy/` gives it in the operator's own.
    pub fn may_lead(&self, scene: &Scene) {
        let (cluster, namespace) = (&scene.cluster, scene.namespace.as_str());
        let (_, account) = self.user.rsplit_once(':').unwrap();
        let role = cluster.kubectl(&[
            "get",
            "role",
            "podloom-leader",
            "--namespace=podloom-system",
            "--output=json",
        ]);
        let role: Value = serde_json::from_str(&role).unwrap();
        let name = format!("leader-{account}");
        let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": { "name": name, "namespace": namespace }, "rules": role["rules"],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": name, "namespace": namespace },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
                "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
            },
        ] });
        cluster.apply_text(&objects.to_string());
    }
}
