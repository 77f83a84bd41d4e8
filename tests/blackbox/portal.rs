//! A PortalExpose from its creation to its end.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::DeleteParams;
use podloom_api::{PortalExpose, PortalPhase};
use podloom_tests::portal::{Portal, condition, is, message, phase, tunnel_name};
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::{Value, json};

fn ready(expose: &PortalExpose) -> bool {
    is(expose, PortalPhase::Ready)
}

fn failed(expose: &PortalExpose) -> bool {
    is(expose, PortalPhase::Failed)
}

/// The tunnel's pod.
fn pod(deployment: &Deployment) -> Value {
    let template = &deployment.spec.as_ref().unwrap().template;
    serde_json::to_value(template.spec.as_ref().unwrap()).unwrap()
}

fn args(deployment: &Deployment) -> Vec<String> {
    let args = pod(deployment)["containers"][0]["args"].clone();
    serde_json::from_value(args).unwrap()
}

#[test]
fn a_service_gets_a_tunnel() {
    blackbox_on(Cluster::without_operator, "portal-tunnel", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let seen = portal.watch().await;
        let mut spec = portal.spec("shop");
        spec["relay"]["targets"] = json!([
            { "name": "main", "url": "wss://Relay.Example.com/relay" },
            { "name": "second", "url": "https://relay.example.org:8443/connect" },
        ]);
        portal.expose_with("shop", spec).await;
        let expose = seen.until_is("shop", "is ready", ready).await;
        let tunnel = portal.tunnel("shop").await;
        let owners = tunnel.owner_references();
        assert_eq!(owners.len(), 1);
        assert_eq!(
            (&owners[0].uid, owners[0].controller),
            (&expose.uid().unwrap(), Some(true))
        );
        let expected = [
            "expose",
            "app.portal-tunnel.svc:8080",
            "--relays",
            "https://relay.example.com,https://relay.example.org:8443",
            "--discovery=false",
            "--name",
            "shop",
            "--metrics-addr",
            ":9090",
        ];
        assert_eq!(args(&tunnel), expected);
        let status = expose.status.as_ref().unwrap();
        assert_eq!(
            status.public_url.as_deref(),
            Some("https://shop.relay.example.com")
        );
        let relays = status.relay.as_ref().unwrap();
        assert_eq!(relays.summary.as_deref(), Some("2/2"));
        let urls: Vec<_> = relays
            .connected
            .iter()
            .flatten()
            .map(|relay| relay.public_url.as_deref())
            .collect();
        assert_eq!(
            urls,
            [
                Some("https://shop.relay.example.com"),
                Some("https://shop.relay.example.org:8443")
            ]
        );
        assert_eq!(condition(&expose, "RelayConnected"), "True/RelaysAssumed");
        let shown = scene
            .cluster
            .kubectl(&["get", "pe", "--namespace", &scene.namespace]);
        let lines: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[0],
            [
                "NAME", "PHASE", "URL", "READY", "TOTAL", "RELAYS", "CLASS", "AGE"
            ]
        );
        assert_eq!(
            lines[1][..7],
            [
                "shop",
                "Ready",
                "https://shop.relay.example.com",
                "1",
                "1",
                "2/2",
                "portal-tunnel"
            ]
        );
        scene
            .events_are("shop", &["Normal Created: ", "Normal Ready: "])
            .await;
    });
}

#[test]
fn the_class_places_the_pods_and_a_restricted_namespace_admits_them() {
    blackbox_on(
        Cluster::without_operator,
        "portal-restricted",
        async |scene| {
            let enforce = "pod-security.kubernetes.io/enforce=restricted";
            scene
                .cluster
                .kubectl(&["label", "namespace", &scene.namespace, enforce]);
            let portal = Portal::new(&scene).await;
            // KWOK's node has this label.
            let selector = json!({ "kubernetes.io/os": "linux" });
            let tolerations = json!([{ "key": "example.com/edge", "operator": "Exists", "effect": "NoSchedule" }]);
            let spec = json!({ "replicas": 3, "size": "large", "nodeSelector": selector, "tolerations": tolerations });
            portal.class(spec).await;
            let _operator = portal.operator(&[]).await;
            let seen = portal.watch().await;
            portal.expose("shop").await;
            let expose = seen.until_is("shop", "is ready", ready).await;
            let pods = expose.status.as_ref().unwrap().tunnel_pods.unwrap();
            assert_eq!((pods.ready, pods.total), (3, 3));
            let pod = pod(&portal.tunnel("shop").await);
            assert_eq!(pod["nodeSelector"], selector);
            assert_eq!(pod["tolerations"], tolerations);
            let resources = &pod["containers"][0]["resources"];
            assert_eq!(
                resources["requests"],
                json!({ "cpu": "500m", "memory": "512Mi" })
            );
            assert_eq!(resources["limits"], json!({ "cpu": "2", "memory": "2Gi" }));
            let classes = portal.classes().get(&scene.namespace).await.unwrap();
            let shared = classes.status.unwrap().conditions.unwrap();
            assert!(
                shared
                    .iter()
                    .any(|it| it.type_ == "ReplicasShareHostname" && it.status == "True")
            );
        },
    );
}

#[test]
fn an_older_client_gets_the_flags_that_it_knows() {
    blackbox_on(Cluster::without_operator, "portal-clients", async |scene| {
        let portal = Portal::new(&scene).await;
        let client = |version: &str| {
            let client =
                json!({ "image": format!("example.com/tunnel:{version}"), "version": version });
            json!({ "replicas": 1, "size": "small", "client": client })
        };
        portal.class(client("2.1.2")).await;
        let _operator = portal.operator(&[]).await;
        let seen = portal.watch().await;
        portal.expose("shop").await;
        seen.until_is("shop", "is ready", ready).await;
        let tunnel = portal.tunnel("shop").await;
        assert!(!args(&tunnel).iter().any(|arg| arg == "--metrics-addr"));
        let container = pod(&tunnel)["containers"][0].clone();
        assert_eq!(container["image"], "example.com/tunnel:2.1.2");
        assert!(
            container.get("livenessProbe").is_none() && container.get("ports").is_none(),
            "{container}"
        );

        portal
            .class_named("portal-clients-old", client("2.0.9"), &json!({}))
            .await;
        let mut spec = portal.spec("old");
        spec["tunnelClassName"] = "portal-clients-old".into();
        portal.expose_with("old", spec).await;
        let old = seen.until_is("old", "has failed", failed).await;
        assert_eq!(
            condition(&old, "TunnelClassExists"),
            "False/TunnelClassInvalid"
        );
        assert!(
            message(&old, "TunnelClassExists").contains("2.1.1"),
            "{}",
            message(&old, "TunnelClassExists")
        );
        assert!(
            portal
                .deployments()
                .get_opt(&tunnel_name("old"))
                .await
                .unwrap()
                .is_none()
        );
        portal
            .classes()
            .delete("portal-clients-old", &DeleteParams::default())
            .await
            .unwrap();
    });
}

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
        eventually("the younger class says that it is shadowed", async || {
            let class = portal.classes().get("younger").await.unwrap();
            let conditions = class
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            let is_shadowed = conditions
                .iter()
                .any(|it| it.type_ == "Default" && it.reason == "ShadowedDefault");
            is_shadowed
                .then_some(())
                .ok_or_else(|| format!("{conditions:?}"))
        })
        .await;
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
