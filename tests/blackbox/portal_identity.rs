//! The Secret with the key of a hostname, and objects of others that have the names of ours.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use podloom_tests::portal::{Portal, condition, identity_name, message, ready};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::{Value, json};

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
            let seen = portal.running().await;
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
            portal.rolled(&before).await;
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
        let seen = portal.running().await;
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
