//! What Flux and Argo CD see of our objects, in each phase.

use podloom_api::{Browser, Phase, PortalPhase};
use podloom_tests::doors::{Health, health};
use podloom_tests::im::templates;
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, kubeconfig};
use podloom_tests::portal::{Portal, is};
use podloom_tests::{Cluster, Scene, Watched, blackbox, blackbox_on, eventually};
use serde_json::{Value, json};

/// Waits until Flux and Argo CD see an object so, and returns what Argo CD says.
async fn until(scene: &Scene, object: &str, flux: &str, argo: &str) -> String {
    let get = ["get", object, "-n", &scene.namespace, "-o", "json"];
    eventually(&format!("{object} is {flux}"), async || {
        let object: Value = serde_json::from_str(&scene.cluster.kubectl(&get)).unwrap();
        let seen = health(&object);
        let is_so = (seen.flux.as_str(), seen.argo.as_str()) == (flux, argo);
        let Health { message, .. } = seen.clone();
        is_so
            .then_some(message)
            .ok_or_else(|| format!("{seen:?}: {:#}", object["status"]))
    })
    .await
}

#[test]
fn a_session_and_its_configuration() {
    blackbox("doors-browsers", async |scene| {
        scene.behaviours().await;
        let behaviours = "browserconfigs.selenosis.io/behaviours";
        until(&scene, behaviours, "Current", "Healthy").await;
        let twins =
            "browsers: { firefox: { '1': { image: 'a:1' } }, Firefox: { '1': { image: 'b:1' } } }";
        scene.config("twins", twins).await;
        let why = until(
            &scene,
            "browserconfigs.selenosis.io/twins",
            "Failed",
            "Degraded",
        )
        .await;
        assert!(why.contains("Firefox"), "{why}");
        // A session that is over is deleted soon.
        let sessions = Watched::new(scene.browsers()).await;
        for (behaviour, phase, flux, argo) in [
            ("running", Phase::Running, "Current", "Healthy"),
            ("pending", Phase::Pending, "InProgress", "Progressing"),
            ("failed", Phase::Failed, "Failed", "Degraded"),
            ("succeeded", Phase::Succeeded, "Current", "Healthy"),
        ] {
            scene.browser(behaviour, behaviour).await;
            let is_so = |it: &Browser| it.status.as_ref().and_then(|it| it.phase) == Some(phase);
            let browser = sessions.until_is(behaviour, "has its phase", is_so).await;
            let mut browser = json!(browser);
            browser["apiVersion"] = "selenosis.io/v1".into();
            browser["kind"] = "Browser".into();
            let seen = health(&browser);
            assert_eq!((seen.flux.as_str(), seen.argo.as_str()), (flux, argo));
        }
    });
}

#[test]
fn a_tunnel_and_its_class() {
    blackbox_on(Cluster::without_operator, "doors-portal", async |scene| {
        let portal = Portal::new(&scene).await;
        let _operator = portal.operator(&[]).await;
        let seen = portal.watch().await;
        let mut spec = portal.spec("shop");
        spec["app"]["service"]["name"] = "late".into();
        portal.expose_with("shop", spec).await;
        let why = until(&scene, "portalexpose/shop", "Failed", "Degraded").await;
        assert!(why.contains("late"), "{why}");
        portal.service("late", 8080).await;
        seen.until_is("shop", "is ready", |it| is(it, PortalPhase::Ready))
            .await;
        until(&scene, "portalexpose/shop", "Current", "Healthy").await;

        let class = format!("tunnelclass/{}", scene.namespace);
        until(&scene, &class, "Current", "Healthy").await;
        let client = json!({ "image": "example.com/tunnel:1", "version": "2.0.9" });
        let spec = json!({ "replicas": 1, "size": "small", "client": client });
        portal.class(spec).await;
        let why = until(&scene, &class, "Failed", "Degraded").await;
        assert!(why.contains("2.0.9"), "{why}");
    });
}

#[test]
fn a_cluster_and_its_provider() {
    blackbox_on(Cluster::without_operator, "doors-infra", async |scene| {
        let infrastructure = Infrastructure::new(&scene).await;
        let _operator = infrastructure.operator(&[]).await;
        let nowhere = infrastructure.basic("http://127.0.0.1:1");
        infrastructure.provider("nowhere", nowhere).await;
        let provider = "infrastructureprovider/nowhere";
        until(&scene, provider, "Failed", "Degraded").await;
        until(&scene, "infrastructureprovider/im", "Current", "Healthy").await;
        until(&scene, "cloud/local", "Current", "Healthy").await;

        let template = templates::single_node(&kubeconfig());
        infrastructure.cluster(&template).await;
        let cluster = format!("clusters.infrastructure.podloom.dev/{CLUSTER}");
        until(&scene, &cluster, "InProgress", "Progressing").await;
        let cloud = json!({ "kind": "Cloud", "name": "missing" });
        let spec = json!({ "tosca": template, "cloudRef": cloud });
        infrastructure.cluster_with("homeless", spec).await;
        let homeless = "clusters.infrastructure.podloom.dev/homeless";
        until(&scene, homeless, "Failed", "Degraded").await;
    });
}
