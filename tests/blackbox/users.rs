//! What the roles of an installation allow people and programs to do with our kinds.

use std::path::Path;

use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::json;

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

fn deploy(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("deploy").join(path).to_str().unwrap().to_owned()
}

/// The verbs that a user is allowed on a resource in the scene's namespace.
fn allowed<'v>(scene: &Scene, user: &str, resource: &str, verbs: &[&'v str]) -> Vec<&'v str> {
    let may = |verb: &&&str| {
        let mut kubectl = scene.cluster.plane.kubectl();
        let asked = kubectl
            .args(["auth", "can-i", verb, resource, "--as", user])
            .args(["--namespace", &scene.namespace])
            .output()
            .unwrap();
        String::from_utf8_lossy(&asked.stdout).trim() == "yes"
    };
    verbs.iter().filter(may).copied().collect()
}

/// Binds a role in the scene's namespace to a user with the same name.
fn bind(scene: &Scene, kind: &str, role: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": role, "namespace": scene.namespace },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role }],
    });
    scene.cluster.apply_text(&binding.to_string());
}

#[test]
fn kubernetes_own_roles_cover_our_kinds() {
    blackbox_on(Cluster::without_operator, "users-roles", async |scene| {
        let users = deploy("controllers/browser/users.yaml");
        scene.cluster.apply(Path::new(&users));
        for role in ["view", "edit", "admin"] {
            bind(&scene, "ClusterRole", role);
        }
        // Kubernetes aggregates the ClusterRoles after a moment.
        eventually("admin may write", async || {
            let may = allowed(&scene, "admin", "browserconfigs.selenosis.io", &WRITE);
            (may == WRITE).then_some(()).ok_or(format!("{may:?}"))
        })
        .await;
        for (role, resource, writes) in [
            ("view", "browsers", &[][..]),
            ("view", "browserconfigs", &[]),
            ("edit", "browsers", &WRITE),
            ("edit", "browserconfigs", &[]),
            ("admin", "browsers", &WRITE),
            ("admin", "browserconfigs", &WRITE),
        ] {
            let resource = format!("{resource}.selenosis.io");
            assert_eq!(allowed(&scene, role, &resource, &READ), READ, "{role}");
            let may = allowed(&scene, role, &resource, &WRITE);
            assert_eq!(may, writes, "{role} {resource}");
        }
    });
}

#[test]
fn clients_may_create_and_delete_browsers_and_nothing_else() {
    blackbox_on(Cluster::without_operator, "users-clients", async |scene| {
        let namespace = ["--namespace", &scene.namespace];
        let apply = ["apply", "--kustomize", &deploy("clients")];
        scene.cluster.kubectl(&[&apply[..], &namespace].concat());
        let client = "podloom-browser-client";
        bind(&scene, "Role", client);
        eventually("it may create Browsers", async || {
            let may = allowed(&scene, client, "browsers.selenosis.io", &["create"]);
            (!may.is_empty()).then_some(()).ok_or("not yet".to_owned())
        })
        .await;
        let all = [READ.as_slice(), &WRITE].concat();
        let may = allowed(&scene, client, "browsers.selenosis.io", &all);
        assert_eq!(may, ["get", "list", "watch", "create", "delete"]);
        for other in ["browserconfigs.selenosis.io", "pods", "secrets"] {
            assert!(allowed(&scene, client, other, &all).is_empty(), "{other}");
        }
    });
}
