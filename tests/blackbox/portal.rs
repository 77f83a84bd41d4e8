//! A PortalExpose becomes a tunnel: its Deployment, its pods and its status.

use kube::ResourceExt;
use kube::api::DeleteParams;
use podloom_tests::portal::{
    Portal, args, condition, failed, message, pod, ready, tunnel_name, url,
};
use podloom_tests::{Cluster, blackbox_on};
use serde_json::json;

/// The client knows no other scheme than https, and takes all relays as one value.
const ARGS: [&str; 9] = [
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
        assert_eq!(args(&tunnel), ARGS);
        assert_eq!(url(&expose), "https://shop.relay.example.com");
        let relays = expose.status.as_ref().unwrap().relay.clone().unwrap();
        assert_eq!(relays.summary.as_deref(), Some("2/2"));
        let relays = relays.connected.unwrap();
        let urls = relays
            .iter()
            .map(|relay| relay.public_url.as_deref().unwrap());
        assert_eq!(
            urls.collect::<Vec<_>>(),
            [
                "https://shop.relay.example.com",
                "https://shop.relay.example.org:8443"
            ]
        );
        assert_eq!(condition(&expose, "RelayConnected"), "True/RelaysAssumed");
        scene
            .events_are("shop", &["Normal Created: ", "Normal Ready: "])
            .await;
    });
}

#[test]
fn kubectl_shows_where_it_is_and_how_it_is() {
    blackbox_on(Cluster::without_operator, "portal-columns", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let _seen = portal.running().await;
        let shown = scene
            .cluster
            .kubectl(&["get", "pe", "--namespace", &scene.namespace]);
        let lines: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[0].join(" "),
            "NAME PHASE URL READY TOTAL RELAYS CLASS AGE"
        );
        let row = "shop Ready https://shop.relay.example.com 1 1 1/1 portal-columns";
        assert_eq!(lines[1][..7].join(" "), row);
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
