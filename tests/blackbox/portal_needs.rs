//! What a PortalExpose needs: its Service, its class and its hostname; and how it ends without them.

use kube::ResourceExt;
use kube::api::DeleteParams;
use podloom_api::PortalPhase;
use podloom_tests::portal::{Portal, condition, failed, is, message, phase, ready, tunnel_name};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::json;

#[test]
fn it_fails_without_its_service_and_recovers_with_it() {
    blackbox_on(Cluster::without_operator, "portal-service", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let seen = portal.watch().await;
        let mut spec = portal.spec("shop");
        spec["app"]["service"]["name"] = "late".into();
        portal.expose_with("shop", spec).await;
        let expose = seen.until_is("shop", "has failed", failed).await;
        assert_eq!(condition(&expose, "ServiceExists"), "False/ServiceNotFound");
        assert!(message(&expose, "ServiceExists").contains("late"));
        // The wrong port, then the right one.
        portal.service("late", 9090).await;
        seen.until_is("shop", "lacks the port", |expose| {
            condition(expose, "ServiceExists") == "False/ServicePortNotFound"
        })
        .await;
        assert!(
            portal
                .deployments()
                .get_opt(&tunnel_name("shop"))
                .await
                .unwrap()
                .is_none()
        );
        let late = portal.services();
        late.delete("late", &DeleteParams::default()).await.unwrap();
        portal.service("late", 8080).await;
        seen.until_is("shop", "is ready", ready).await;
        let before = portal.tunnel("shop").await;
        late.delete("late", &DeleteParams::default()).await.unwrap();
        seen.until_is("shop", "has failed again", failed).await;
        let after = portal.tunnel("shop").await;
        assert_eq!(
            (before.uid(), before.metadata.generation),
            (after.uid(), after.metadata.generation)
        );
    });
}

#[test]
fn a_tunnel_whose_class_is_deleted_goes_on() {
    blackbox_on(
        Cluster::without_operator,
        "portal-classless",
        async |scene| {
            let portal = Portal::new(&scene).await;
            let _operator = portal.operator(&[]).await;
            let seen = portal.watch().await;
            portal.expose("shop").await;
            seen.until_is("shop", "is ready", ready).await;
            let before = portal.tunnel("shop").await;
            portal
                .classes()
                .delete(&scene.namespace, &DeleteParams::default())
                .await
                .unwrap();
            let expose = seen
                .until_is("shop", "is degraded", |expose| {
                    is(expose, PortalPhase::Degraded)
                })
                .await;
            assert_eq!(
                condition(&expose, "TunnelClassExists"),
                "False/TunnelClassNotFound"
            );
            let after = portal.tunnel("shop").await;
            assert_eq!(
                (before.uid(), before.metadata.generation),
                (after.uid(), after.metadata.generation)
            );
            assert_eq!(after.status.unwrap().ready_replicas, Some(1));
        },
    );
}

/// Waits until a class says that an older one is the default.
async fn is_shadowed(portal: &Portal<'_>, name: &str) {
    eventually("the younger class says that it is shadowed", async || {
        let class = portal.classes().get(name).await.unwrap();
        let conditions = class.status.and_then(|status| status.conditions);
        let conditions = conditions.unwrap_or_default();
        let mut found = conditions.iter();
        let is_so = found.any(|it| it.type_ == "Default" && it.reason == "ShadowedDefault");
        is_so.then_some(()).ok_or_else(|| format!("{conditions:?}"))
    })
    .await;
}

/// On a cluster of its own: a default class would change what other tests see.
#[test]
fn the_default_class_is_used_once_there_is_one() {
    let cluster = || std::sync::Arc::new(Cluster::installed());
    blackbox_on(cluster, "portal-default", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let seen = portal.watch().await;
        let mut spec = portal.spec("shop");
        spec["tunnelClassName"] = "".into();
        portal.expose_with("shop", spec).await;
        let expose = seen.until_is("shop", "has failed", failed).await;
        assert_eq!(
            condition(&expose, "TunnelClassExists"),
            "False/TunnelClassNotFound"
        );
        let text = message(&expose, "TunnelClassExists");
        assert!(
            text.contains("portal.gosuda.org/is-default-class"),
            "{text}"
        );
        let small = json!({ "replicas": 1, "size": "small" });
        let default = json!({ "portal.gosuda.org/is-default-class": "true" });
        // Neither the name nor another value makes a default.
        portal
            .class_named(
                "default",
                small.clone(),
                &json!({ "portal.gosuda.org/is-default-class": "yes" }),
            )
            .await;
        portal
            .class_named("standard", small.clone(), &default)
            .await;
        let expose = seen.until_is("shop", "is ready", ready).await;
        assert_eq!(
            expose.status.as_ref().unwrap().tunnel_class_name.as_deref(),
            Some("standard")
        );
        assert_eq!(
            condition(&expose, "TunnelClassExists"),
            "True/TunnelClassFound"
        );
        // Creation times are in whole seconds, and of two of one second, the name decides.
        portal.class_named("younger", small, &default).await;
        let expose = seen
            .until_is("shop", "sees two defaults", |expose| {
                condition(expose, "TunnelClassExists") == "True/MultipleDefaultClasses"
            })
            .await;
        assert_eq!(
            expose.status.as_ref().unwrap().tunnel_class_name.as_deref(),
            Some("standard")
        );
        is_shadowed(&portal, "younger").await;
    });
}

#[test]
fn of_two_with_one_hostname_the_older_one_gets_it() {
    blackbox_on(
        Cluster::without_operator,
        "portal-hostname",
        async |scene| {
            let portal = Portal::new(&scene).await;
            let beside = scene.beside("portal-hostname-secret", json!({})).await;
            let other = Portal::new(&beside).await;
            let both = [
                "--namespace",
                "portal-hostname",
                "--namespace",
                "portal-hostname-secret",
            ];
            let _operator = portal.operator(&both).await;
            let (seen, seen_there) = (portal.watch().await, other.watch().await);
            portal.expose("shop").await;
            seen.until_is("shop", "is ready", ready).await;
            // Creation times are in whole seconds. If both are equal, the name of the namespace decides, and this one comes first.
            let mut spec = other.spec("shop");
            spec["relay"]["targets"][0]["url"] = "https://RELAY.example.com:443".into();
            other.expose_with("a", spec).await;
            let loser = seen_there
                .until_is("a", "has a conflict", |expose| {
                    condition(expose, "HostnameUnique") == "False/HostnameConflict"
                })
                .await;
            let text = serde_json::to_string(&loser.status).unwrap();
            assert!(
                !text.contains("portal-hostname\""),
                "it names objects of another namespace: {text}"
            );
            assert!(
                other
                    .deployments()
                    .get_opt(&tunnel_name("a"))
                    .await
                    .unwrap()
                    .is_none()
            );
            assert!(ready(&portal.exposes().get("shop").await.unwrap()));
            portal.delete("shop").await;
            seen_there.until_is("a", "is ready", ready).await;
        },
    );
}

#[test]
fn it_is_deleted_though_everything_that_it_needs_is_gone() {
    blackbox_on(Cluster::without_operator, "portal-deleted", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let seen = portal.watch().await;
        portal.expose("shop").await;
        seen.until_is("shop", "is ready", ready).await;
        portal
            .patch(
                "shop",
                json!({ "metadata": { "finalizers": [
            "portal.gosuda.org/cleanup-tunnel-deployment", "example.com/of-somebody-else",
        ] } }),
            )
            .await;
        portal
            .services()
            .delete("app", &DeleteParams::default())
            .await
            .unwrap();
        portal
            .classes()
            .delete(&scene.namespace, &DeleteParams::default())
            .await
            .unwrap();
        seen.until_is("shop", "has failed", |expose| {
            phase(expose) == Some(PortalPhase::Failed)
        })
        .await;
        portal.delete("shop").await;
        let last = seen
            .until_is("shop", "has only the other finalizer", |expose| {
                expose.finalizers() == ["example.com/of-somebody-else"]
            })
            .await;
        assert!(last.metadata.deletion_timestamp.is_some());
        assert!(
            portal
                .deployments()
                .get_opt(&tunnel_name("shop"))
                .await
                .unwrap()
                .is_none()
        );
        // The key stays, for the next PortalExpose of that name.
        let secret = portal.secrets().get("shop-tunnel-identity").await.unwrap();
        assert!(secret.owner_references().is_empty());
        portal
            .patch("shop", json!({ "metadata": { "finalizers": null } }))
            .await;
    });
}
