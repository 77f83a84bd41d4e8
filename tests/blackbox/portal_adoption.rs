//! What the Go operator gosuda/portal-expose made is adopted, and readiness reports its namespaced TunnelClass.

use kube::ResourceExt;
use podloom_api::PortalExpose;
use podloom_tests::portal::{Portal, ready};
use podloom_tests::{Cluster, Operator, blackbox_on, eventually};
use serde_json::{Value, json};

/// A Deployment as the Go operator makes it, with a field that ours does not have.
fn of_the_older(expose: &PortalExpose) -> Value {
    let labels = json!({
        "app.kubernetes.io/name": "portal-tunnel", "app.kubernetes.io/component": "tunnel",
        "app.kubernetes.io/managed-by": "portal-expose-controller", "portal.gosuda.org/portalexpose": "shop",
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "shop-tunnel", "namespace": expose.namespace(), "labels": labels,
            "ownerReferences": [{
                "apiVersion": "portal.gosuda.org/v1alpha1", "kind": "PortalExpose", "name": "shop",
                "uid": expose.uid(), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{
                    "name": "tunnel", "image": "example.com/old:1",
                    "command": ["/bin/old"], "env": [{ "name": "OLD", "value": "1" }],
                    "args": ["expose", "--relay", "a"],
                }] },
            },
        },
    })
}

#[test]
fn a_deployment_of_the_older_operator_is_adopted() {
    blackbox_on(Cluster::without_operator, "portal-adopted", async |scene| {
        let portal = Portal::new(&scene).await;
        let expose = portal.expose("shop").await;
        let deployment = of_the_older(&expose);
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), deployment.to_string()).unwrap();
        let create = [
            "create",
            "--field-manager=manager",
            "--filename",
            file.path().to_str().unwrap(),
        ];
        scene.cluster.kubectl(&create);
        // Somebody restarted it once.
        let namespace = ["--namespace", scene.namespace.as_str()];
        scene.cluster.kubectl(
            &[
                &["rollout", "restart", "deployment/shop-tunnel"],
                &namespace[..],
            ]
            .concat(),
        );
        let before = portal.tunnel("shop").await;
        let seen = portal.watch().await;
        let _operator = portal.operator(&[]).await;
        seen.until_is("shop", "is ready", ready).await;
        let after = portal.tunnel("shop").await;
        assert_eq!(before.uid(), after.uid());
        let template = after.spec.as_ref().unwrap().template.clone();
        let container = serde_json::to_value(&template.spec.unwrap().containers[0]).unwrap();
        assert_eq!(
            container.get("command"),
            None,
            "what is no longer rendered is removed"
        );
        assert_eq!(container["env"].as_array().unwrap().len(), 1, "{container}");
        let annotations = template.metadata.unwrap().annotations.unwrap_or_default();
        assert!(
            annotations.contains_key("kubectl.kubernetes.io/restartedAt"),
            "what others wrote stays"
        );
        assert!(
            after
                .annotations()
                .contains_key("portal.gosuda.org/input-hash")
        );
    });
}

/// The CustomResourceDefinition with the scope that the Go operator has.
fn namespaced_classes(cluster: &Cluster) {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crds/portal/tunnelclasses.yaml"
    ))
    .unwrap();
    cluster.apply_text(&text.replace("scope: Cluster", "scope: Namespaced"));
}

#[test]
fn a_class_of_the_wrong_scope_stops_the_portal_controller_alone() {
    let cluster = || {
        let cluster = Cluster::bare();
        namespaced_classes(&cluster);
        std::sync::Arc::new(cluster)
    };
    blackbox_on(cluster, "portal-scope", async |scene| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for file in ["crds", "crds/portal/portalexposes.yaml"] {
            scene.cluster.apply(&std::path::Path::new(root).join(file));
        }
        let arguments = [
            "--controllers",
            "browser,portal",
            "--namespace",
            &scene.namespace,
        ];
        let operator = Operator::spawn(
            &scene.cluster,
            &scene.cluster.plane.kubeconfig(),
            &arguments,
        );
        let says = eventually("the portal controller says what is wrong", async || {
            let (status, body) = operator.get("/readyz/portal")?;
            (status != 200 && body.contains("Namespaced"))
                .then_some(body.clone())
                .ok_or(body)
        })
        .await;
        assert!(
            says.contains("kubectl delete crd tunnelclasses.portal.gosuda.org"),
            "{says}"
        );
        eventually("the browser controller works", async || {
            let (status, body) = operator.get("/readyz/browser")?;
            (status == 200).then_some(()).ok_or(body)
        })
        .await;
        // Replaced, and the controller starts without a restart.
        scene
            .cluster
            .kubectl(&["delete", "crd", "tunnelclasses.portal.gosuda.org"]);
        scene
            .cluster
            .apply(&std::path::Path::new(root).join("crds/portal/tunnelclasses.yaml"));
        operator.ready().await;
    });
}
