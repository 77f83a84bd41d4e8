//! What changes of a PortalExpose, its class and its Deployment do to a tunnel that runs.

use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use podloom_tests::portal::{Portal, args, tunnel_name, url};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::{Value, json};

/// A patch that replaces the relays.
fn relays(targets: [(&str, &str); 2]) -> Value {
    let targets = targets.map(|(name, url)| json!({ "name": name, "url": url }));
    json!({ "spec": { "relay": { "targets": targets } } })
}

#[test]
fn each_change_that_pods_see_rolls_the_tunnel() {
    blackbox_on(Cluster::without_operator, "portal-changes", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let seen = portal.running().await;
        let mut now = portal.tunnel("shop").await;
        assert_eq!(portal.replica_sets(), 1);
        portal
            .class(json!({ "replicas": 1, "size": "medium" }))
            .await;
        now = portal.rolled(&now).await;
        let tolerant =
            json!({ "replicas": 1, "size": "medium", "tolerations": [{ "operator": "Exists" }] });
        portal.class(tolerant).await;
        now = portal.rolled(&now).await;

        let (first, second) = ("wss://relay.example.com/relay", "wss://relay.example.org");
        portal
            .patch("shop", relays([("main", first), ("second", second)]))
            .await;
        now = portal.rolled(&now).await;
        portal
            .patch("shop", relays([("second", second), ("main", first)]))
            .await;
        now = portal.rolled(&now).await;
        let both = "https://relay.example.org,https://relay.example.com";
        assert!(args(&now).contains(&both.to_owned()));
        let at_first = |expose: &_| url(expose) == "https://shop.relay.example.org";
        seen.until_is("shop", "has the URL of the first relay", at_first)
            .await;

        portal
            .patch("shop", json!({ "spec": { "app": { "name": "store" } } }))
            .await;
        portal.rolled(&now).await;
        let renamed = |expose: &_| url(expose) == "https://store.relay.example.org";
        seen.until_is("shop", "has the URL of its new name", renamed)
            .await;
    });
}

#[test]
fn a_port_that_the_service_has_too_rolls_the_tunnel() {
    blackbox_on(Cluster::without_operator, "portal-port", async |scene| {
        let portal = Portal::new(&scene).await;
        let ports = json!([{ "name": "a", "port": 8080 }, { "name": "b", "port": 9090 }]);
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "app", "namespace": scene.namespace },
            "spec": { "selector": { "app": "app" }, "ports": ports },
        });
        scene
            .cluster
            .kubectl(&["delete", "service", "app", "--namespace", &scene.namespace]);
        scene.cluster.apply_text(&service.to_string());
        let _operator = portal.operator(&[]).await;
        let _seen = portal.running().await;
        let before = portal.tunnel("shop").await;
        portal
            .patch(
                "shop",
                json!({ "spec": { "app": { "service": { "port": 9090 } } } }),
            )
            .await;
        let now = portal.rolled(&before).await;
        assert_eq!(args(&now)[1], "app.portal-port.svc:9090");
    });
}

#[test]
fn the_name_of_a_target_is_only_for_the_status() {
    blackbox_on(Cluster::without_operator, "portal-renamed", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let seen = portal.running().await;
        let before = portal.tunnel("shop").await;
        let renamed = json!([{ "name": "other", "url": "https://relay.example.com/elsewhere" }]);
        portal
            .patch(
                "shop",
                json!({ "spec": { "relay": { "targets": renamed } } }),
            )
            .await;
        seen.until_is("shop", "has the new name", |expose| {
            let relays = expose
                .status
                .as_ref()
                .and_then(|status| status.relay.clone());
            let relays = relays
                .and_then(|relays| relays.connected)
                .unwrap_or_default();
            relays.first().is_some_and(|relay| relay.name == "other")
        })
        .await;
        let after = portal.tunnel("shop").await;
        assert_eq!(after.metadata.generation, before.metadata.generation);
        assert_eq!(portal.replica_sets(), 1);
    });
}

#[test]
fn what_the_operator_wrote_is_restored_and_what_others_wrote_stays() {
    blackbox_on(Cluster::without_operator, "portal-drift", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let _seen = portal.running().await;
        let before = portal.tunnel("shop").await;
        let edit = json!([
            { "op": "replace", "path": "/spec/template/spec/containers/0/args/0", "value": "hacked" },
            { "op": "add", "path": "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt", "value": "now" },
        ]);
        let name = tunnel_name("shop");
        let edit = edit.to_string();
        let namespace = scene.namespace.as_str();
        scene.cluster.kubectl(&[
            "patch",
            "deployment",
            &name,
            "--namespace",
            namespace,
            "--type=json",
            "--patch",
            &edit,
        ]);
        eventually("the arguments are restored", async || {
            let now = portal.tunnel("shop").await;
            (args(&now) == args(&before))
                .then_some(())
                .ok_or_else(|| format!("{:?}", args(&now)))
        })
        .await;
        let now = portal.tunnel("shop").await;
        let annotations = now
            .spec
            .as_ref()
            .unwrap()
            .template
            .metadata
            .clone()
            .unwrap_or_default();
        let restarted = annotations.annotations.unwrap_or_default();
        assert_eq!(
            restarted
                .get("kubectl.kubernetes.io/restartedAt")
                .map(String::as_str),
            Some("now")
        );
    });
}

/// Nothing names the PortalExpose any more, and the next look at one that is ready is minutes away.
#[test]
fn a_lost_owner_is_restored() {
    blackbox_on(Cluster::without_operator, "portal-orphan", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let _seen = portal.running().await;
        let (deployments, name) = (portal.deployments(), tunnel_name("shop"));
        let orphan = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
        let all = PatchParams::default();
        let orphan = deployments.patch(&name, &all, &orphan).await.unwrap();
        assert_eq!(orphan.owner_references(), []);
        eventually("it has its owner again", async || {
            let now = portal.tunnel("shop").await;
            match now.owner_references() {
                [owner] if owner.name == "shop" => Ok(()),
                others => Err(format!("{others:?}")),
            }
        })
        .await;
    });
}

#[test]
fn a_deleted_deployment_comes_back() {
    blackbox_on(
        Cluster::without_operator,
        "portal-undeleted",
        async |scene| {
            let portal = Portal::new(&scene).await;
            let _operator = portal.operator(&[]).await;
            let _seen = portal.running().await;
            let before = portal.tunnel("shop").await.uid();
            let (deployments, name) = (portal.deployments(), tunnel_name("shop"));
            deployments
                .delete(&name, &DeleteParams::default())
                .await
                .unwrap();
            eventually("there is another Deployment", async || {
                let now = deployments.get_opt(&name).await.unwrap();
                let uid = now.and_then(|it| it.uid());
                (uid.is_some() && uid != before)
                    .then_some(())
                    .ok_or_else(|| format!("{uid:?}"))
            })
            .await;
        },
    );
}
