//! What changes of a PortalExpose, its class and its children do to a tunnel that runs.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use podloom_api::{PortalExpose, PortalPhase};
use podloom_tests::portal::{Portal, condition, identity_name, is, message, tunnel_name};
use podloom_tests::{Cluster, Scene, Watched, blackbox_on, eventually};
use serde_json::{Value, json};

fn ready(expose: &PortalExpose) -> bool {
    is(expose, PortalPhase::Ready)
}

async fn running(portal: &Portal<'_>) -> Watched<PortalExpose> {
    let seen = portal.watch().await;
    portal.expose("shop").await;
    seen.until_is("shop", "is ready", ready).await;
    seen
}

/// Waits until the Deployment has rolled to another generation, and all of its pods are of that.
async fn rolled(portal: &Portal<'_>, before: &Deployment) -> Deployment {
    eventually("the tunnel has rolled", async || {
        let now = portal.tunnel("shop").await;
        let status = now.status.clone().unwrap_or_default();
        let is_new = now.metadata.generation > before.metadata.generation
            && status.observed_generation == now.metadata.generation
            && status.updated_replicas == now.spec.as_ref().unwrap().replicas
            && status.ready_replicas == status.updated_replicas
            && status.replicas == status.updated_replicas;
        is_new
            .then(|| now.clone())
            .ok_or_else(|| format!("{:?} {status:?}", now.metadata.generation))
    })
    .await
}

fn args(deployment: &Deployment) -> Vec<String> {
    let template = deployment
        .spec
        .as_ref()
        .unwrap()
        .template
        .spec
        .clone()
        .unwrap();
    template.containers[0].args.clone().unwrap_or_default()
}

fn replica_sets(scene: &Scene) -> usize {
    let get = [
        "get",
        "replicasets",
        "--namespace",
        &scene.namespace,
        "--output=name",
    ];
    scene.cluster.kubectl(&get).lines().count()
}

#[test]
fn each_change_that_pods_see_rolls_the_tunnel() {
    blackbox_on(Cluster::without_operator, "portal-changes", async |scene| {
        let portal = Portal::new(&scene).await;
        portal.service("app", 8080).await;
        let _operator = portal.operator(&[]).await;
        let seen = running(&portal).await;
        let mut now = portal.tunnel("shop").await;
        assert_eq!(replica_sets(&scene), 1);
        let class = |spec: Value| portal.class(spec);

        class(json!({ "replicas": 1, "size": "medium" })).await;
        now = rolled(&portal, &now).await;
        class(
            json!({ "replicas": 1, "size": "medium", "tolerations": [{ "operator": "Exists" }] }),
        )
        .await;
        now = rolled(&portal, &now).await;

        let two = json!([
            { "name": "main", "url": "wss://relay.example.com/relay" },
            { "name": "second", "url": "wss://relay.example.org" },
        ]);
        portal
            .patch("shop", json!({ "spec": { "relay": { "targets": two } } }))
            .await;
        now = rolled(&portal, &now).await;
        let turned = json!([
            { "name": "second", "url": "wss://relay.example.org" },
            { "name": "main", "url": "wss://relay.example.com/relay" },
        ]);
        portal
            .patch(
                "shop",
                json!({ "spec": { "relay": { "targets": turned } } }),
            )
            .await;
        now = rolled(&portal, &now).await;
        assert!(
            args(&now).contains(&"https://relay.example.org,https://relay.example.com".to_owned())
        );
        seen.until_is("shop", "has the URL of the first relay", |expose| {
            let url = expose
                .status
                .as_ref()
                .and_then(|status| status.public_url.as_deref());
            url == Some("https://shop.relay.example.org")
        })
        .await;

        portal
            .patch("shop", json!({ "spec": { "app": { "name": "store" } } }))
            .await;
        now = rolled(&portal, &now).await;
        seen.until_is("shop", "has the URL of its new name", |expose| {
            let url = expose
                .status
                .as_ref()
                .and_then(|status| status.public_url.as_deref());
            url == Some("https://store.relay.example.org")
        })
        .await;
        let sets = replica_sets(&scene);

        // The name of a target is only for the status.
        let renamed = json!([
            { "name": "first", "url": "wss://relay.example.org" },
            { "name": "main", "url": "wss://relay.example.com/other" },
        ]);
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
                .and_then(|status| status.relay.clone())
                .unwrap_or_default();
            relays
                .connected
                .unwrap_or_default()
                .first()
                .is_some_and(|relay| relay.name == "first")
        })
        .await;
        let after = portal.tunnel("shop").await;
        assert_eq!(
            (after.metadata.generation, replica_sets(&scene)),
            (now.metadata.generation, sets)
        );
    });
}

#[test]
fn what_the_operator_wrote_is_restored_and_what_others_wrote_stays() {
    blackbox_on(Cluster::without_operator, "portal-drift", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let _seen = running(&portal).await;
        let before = portal.tunnel("shop").await;
        let edit = json!([
            { "op": "replace", "path": "/spec/template/spec/containers/0/args/0", "value": "hacked" },
            { "op": "add", "path": "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt", "value": "now" },
        ]);
        let (deployments, name) = (portal.deployments(), tunnel_name("shop"));
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
        // A deleted Deployment comes back.
        deployments
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        eventually("there is another Deployment", async || {
            let now = deployments
                .get_opt(&name)
                .await
                .unwrap()
                .and_then(|it| it.uid());
            now.filter(|uid| Some(uid) != before.uid().as_ref())
                .map(drop)
                .ok_or_else(|| "none".to_owned())
        })
        .await;
    });
}

fn identity(secret: &Secret) -> Value {
    let data = secret.data.as_ref().unwrap();
    serde_json::from_slice(&data["identity.json"].0).unwrap()
}

#[test]
fn the_key_of_the_hostname_stays() {
    blackbox_on(
        Cluster::without_operator,
        "portal-identity",
        async |scene| {
            let portal = Portal::new(&scene).await;
            let mut operator = portal.operator(&[]).await;
            let seen = running(&portal).await;
            let (secrets, name) = (portal.secrets(), identity_name("shop"));
            let first = secrets.get(&name).await.unwrap();
            let key = identity(&first)["private_key"].clone();
            assert_eq!(key.as_str().unwrap().len(), 64);
            assert_eq!(identity(&first)["name"], "shop");

            operator.restart();
            operator.ready().await;
            portal
                .patch("shop", json!({ "spec": { "app": { "name": "store" } } }))
                .await;
            eventually("the identity has the new name", async || {
                let now = identity(&secrets.get(&name).await.unwrap());
                (now["name"] == "store")
                    .then_some(())
                    .ok_or_else(|| "it has the old one".to_owned())
            })
            .await;
            assert_eq!(
                identity(&secrets.get(&name).await.unwrap())["private_key"],
                key
            );
            seen.until_is("shop", "is ready", ready).await;

            let before = portal.tunnel("shop").await;
            secrets
                .delete(&name, &DeleteParams::default())
                .await
                .unwrap();
            rolled(&portal, &before).await;
            let second = identity(&secrets.get(&name).await.unwrap());
            assert_ne!(second["private_key"], key);

            // Nothing of the keys is in the log.
            for secret in [&key, &second["private_key"], &second["token_secret"]] {
                assert!(operator.logged(&[secret.as_str().unwrap()]).is_empty());
            }
        },
    );
}

#[test]
fn an_identity_that_cannot_be_read_is_never_overwritten() {
    blackbox_on(Cluster::without_operator, "portal-garbage", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let seen = running(&portal).await;
        let (secrets, name) = (portal.secrets(), identity_name("shop"));
        let garbage =
            json!({ "data": null, "stringData": { "identity.json": "{\"private_key\":" } });
        let (all, garbage) = (PatchParams::default(), Patch::Merge(garbage));
        let patched = secrets.patch(&name, &all, &garbage).await.unwrap();
        let expose = seen
            .until_is("shop", "cannot read its identity", |expose| {
                condition(expose, "TunnelDeploymentReady") == "False/IdentityInvalid"
            })
            .await;
        assert!(!message(&expose, "TunnelDeploymentReady").contains("{\""));
        portal
            .patch("shop", json!({ "spec": { "app": { "name": "store" } } }))
            .await;
        seen.until_is("shop", "has seen the new name", |expose| {
            expose
                .status
                .as_ref()
                .and_then(|status| status.observed_generation)
                == expose.metadata.generation
        })
        .await;
        let now = secrets.get(&name).await.unwrap();
        assert_eq!(
            (now.data, now.metadata.resource_version),
            (patched.data, patched.metadata.resource_version)
        );
        assert_eq!(
            portal.tunnel("shop").await.status.unwrap().ready_replicas,
            Some(1)
        );
    });
}

#[test]
fn objects_of_others_are_left_alone() {
    blackbox_on(Cluster::without_operator, "portal-foreign", async |scene| {
        let portal = Portal::new(&scene).await;
        let foreign = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "shop-tunnel", "namespace": scene.namespace },
            "spec": {
                "selector": { "matchLabels": { "app": "mine" } },
                "template": {
                    "metadata": { "labels": { "app": "mine" } },
                    "spec": { "containers": [{ "name": "mine", "image": "registry.k8s.io/pause:3.10" }] },
                },
            },
        });
        scene.cluster.apply_text(&foreign.to_string());
        let before = portal.tunnel("shop").await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": { "identity.json": "mine" },
            "metadata": { "name": "mine-tunnel-identity", "namespace": scene.namespace },
        });
        scene.cluster.apply_text(&secret.to_string());
        let _operator = portal.operator(&[]).await;
        let seen = portal.watch().await;
        portal.expose("shop").await;
        portal.expose("mine").await;
        for (name, reason) in [("shop", "DeploymentNotOwned"), ("mine", "IdentityNotOwned")] {
            seen.until_is(name, "says whose it is", |expose| {
                condition(expose, "TunnelDeploymentReady") == format!("False/{reason}")
            })
            .await;
        }
        portal.delete("shop").await;
        eventually("it is gone", async || {
            let left = portal.exposes().get_opt("shop").await.unwrap();
            left.is_none()
                .then_some(())
                .ok_or_else(|| "it is there".to_owned())
        })
        .await;
        let after = portal.tunnel("shop").await;
        assert_eq!((before.uid(), before.spec), (after.uid(), after.spec));
    });
}

#[test]
fn a_rejected_deployment_is_reported_and_not_tried_all_the_time() {
    blackbox_on(
        Cluster::without_operator,
        "portal-rejected",
        async |scene| {
            let portal = Portal::new(&scene).await;
            portal.class(json!({ "replicas": 1, "size": "small", "nodeSelector": { "pool": "not a label!" } })).await;
            let proxy = portal.proxy();
            let _operator = portal.operator_behind(&proxy, &[]).await;
            let seen = portal.watch().await;
            let begun = Instant::now();
            portal.expose("shop").await;
            let expose = seen
                .until_is("shop", "is rejected", |expose| {
                    condition(expose, "TunnelDeploymentReady") == "False/DeploymentRejected"
                })
                .await;
            let text = message(&expose, "TunnelDeploymentReady");
            assert!(text.contains("not a label!"), "{text}");
            // The pauses between attempts double from 5 ms, so ten attempts take at least two seconds.
            eventually("it was tried ten times", async || {
                let attempts = proxy.count("patch deployments");
                (attempts >= 10)
                    .then_some(())
                    .ok_or_else(|| format!("{attempts} times"))
            })
            .await;
            assert!(
                begun.elapsed() > Duration::from_secs(2),
                "{:?}",
                begun.elapsed()
            );
            let before = Instant::now();
            portal
                .class(json!({ "replicas": 1, "size": "small" }))
                .await;
            seen.until_is("shop", "is ready", ready).await;
            assert!(
                before.elapsed() < Duration::from_secs(40),
                "{:?}",
                before.elapsed()
            );
        },
    );
}

#[test]
fn passes_without_a_change_write_nothing() {
    blackbox_on(Cluster::without_operator, "portal-rest", async |scene| {
        let portal = Portal::new(&scene).await;
        let proxy = portal.proxy();
        let operator = portal.operator_behind(&proxy, &["--resync", "100ms"]).await;
        let seen = running(&portal).await;
        scene
            .events_are("shop", &["Normal Created: ", "Normal Ready: "])
            .await;
        let writes = || -> u64 {
            let counts = proxy.counts();
            let writes = counts.iter().filter(|(request, _)| {
                let verb = request.split(' ').next().unwrap_or_default();
                // The classes of other tests are in the same cluster.
                let is_own = !request.ends_with("tunnelclasses/status");
                is_own
                    && !matches!(verb, "get" | "list" | "watch")
                    && !request.contains("subjectaccessreviews")
            });
            writes.flat_map(|(_, codes)| codes.values()).sum()
        };
        let (before, changes) = (writes(), seen.changes().len());
        let passes = operator.metric("podloom_reconcile_total{controller=\"portalexpose\"");
        eventually("there were a hundred more passes", async || {
            let now = operator.metric("podloom_reconcile_total{controller=\"portalexpose\"");
            (now > passes + 100.0)
                .then_some(())
                .ok_or_else(|| format!("{now} after {passes}"))
        })
        .await;
        assert_eq!(
            (writes(), seen.changes().len()),
            (before, changes),
            "{:?}",
            proxy.counts()
        );
    });
}
