//! What a Cluster needs before anything is asked of an Infrastructure Manager: a binding, its Cloud, provider and Secrets.

use std::sync::Arc;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use podloom_api::{ClusterState, InfrastructureKind};
use podloom_tests::faults::Proxy;
use podloom_tests::im::{ImServer, templates};
use podloom_tests::infrastructure::{CLUSTER, Infrastructure, condition, kubeconfig, message};
use podloom_tests::{Cluster, blackbox_on};
use serde_json::{Value, json};

/// Nothing is asked for a Cluster without a binding. A scheduler that patches one in keeps the field.
#[test]
fn an_unbound_cluster_waits_for_a_scheduler() {
    blackbox_on(Cluster::without_operator, "infra-unbound", async |scene| {
        let im = ImServer::shared().await;
        let proxy = Proxy::to(im.address);
        let infrastructure = Infrastructure::behind(&scene, im, &proxy).await;
        let _operator = infrastructure.operator(&[]).await;
        let template = templates::single_node(&kubeconfig());
        let spec = json!({ "tosca": template, "cloudRef": null });
        infrastructure.cluster_with(CLUSTER, spec).await;
        let status = infrastructure
            .until_condition("Scheduled", "False/Unbound")
            .await;
        assert_eq!(status.state, Some(ClusterState::Pending));
        let asked = proxy.requests();
        // What a provider and a Cloud check about themselves.
        let is_check = |path: &str| {
            ["/version", "/infrastructures"].contains(&path) || path.ends_with("/quotas")
        };
        let asked: Vec<_> = asked.iter().filter(|it| !is_check(&it.path)).collect();
        assert!(asked.is_empty(), "{asked:?}");
        assert_eq!(proxy.count("POST /infrastructures"), 0);

        let binding = json!({ "status": { "scheduledTo": { "kind": "Cloud", "name": "local" } } });
        let clusters = infrastructure.clusters();
        let scheduler = PatchParams {
            field_manager: Some("scheduler".to_owned()),
            ..PatchParams::default()
        };
        clusters
            .patch_status(CLUSTER, &scheduler, &Patch::Merge(binding))
            .await
            .unwrap();
        infrastructure.until_configured(1).await;
        let managed = infrastructure.now().await.metadata.managed_fields.unwrap();
        let owner = managed.iter().find(|entry| {
            let fields = serde_json::to_string(&entry.fields_v1).unwrap();
            fields.contains("f:scheduledTo")
        });
        assert_eq!(owner.unwrap().manager.as_deref(), Some("scheduler"));
    });
}

/// Each thing that is missing has its reason; creating it heals without anything else.
#[test]
fn what_is_missing_is_named_and_creating_it_heals() {
    blackbox_on(Cluster::without_operator, "infra-missing", async |scene| {
        let im = ImServer::shared().await;
        let infrastructure = Infrastructure::bare(&scene, im);
        let _operator = infrastructure.operator(&[]).await;
        infrastructure
            .cluster(&templates::single_node(&kubeconfig()))
            .await;
        let names = async |reason: &str, words: &[&str]| {
            let status = infrastructure
                .until_condition("Scheduled", &format!("False/{reason}"))
                .await;
            let text = message(&status, "Scheduled");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            assert_eq!(status.state, Some(ClusterState::Failed));
            assert_eq!(condition(&status, "Stalled"), format!("True/{reason}"));
        };
        names("CloudNotFound", &["Cloud", "local"]).await;
        infrastructure.cloud("local", "im").await;
        names("ProviderNotFound", &["InfrastructureProvider", "im"]).await;
        infrastructure
            .provider("im", infrastructure.basic(&im.url()))
            .await;
        names("SecretNotFound", &["Secret", "im"]).await;
        let secrets = json!({ "pass": "s3cret-under-a-wrong-key" });
        infrastructure.secret("im", secrets).await;
        infrastructure
            .until("names the key", |status| {
                let text = message(status, "Scheduled");
                text.contains("password") && text.contains("key")
            })
            .await;
        let right = json!({ "stringData": { "password": infrastructure.password() } });
        let secrets = infrastructure.secrets();
        secrets
            .patch("im", &PatchParams::default(), &Patch::Merge(right))
            .await
            .unwrap();
        infrastructure.until_configured(1).await;
        let now = serde_json::to_string(&infrastructure.now().await).unwrap();
        assert!(!now.contains("s3cret-under-a-wrong-key"), "{now}");
    });
}

/// The kind in a reference is what selects: a provider of the same name in the Cluster's namespace does not shadow a global one.
#[test]
fn global_clouds_and_providers_are_used() {
    let own = || Arc::new(Cluster::installed());
    blackbox_on(own, "infra-global", async |scene| {
        let im = ImServer::shared().await;
        let central = scene.beside("infra-central", json!({})).await;
        let [infrastructure, secrets] = [&scene, &central].map(|it| Infrastructure::bare(it, im));
        // The account of the test, whose password only the namespace of the global Secrets has.
        let password = json!({ "password": infrastructure.password() });
        secrets.secret("im", password).await;
        let global = infrastructure.basic(&im.url());
        create(
            &infrastructure,
            InfrastructureKind::GlobalInfrastructureProvider,
            "im",
            json!({ "im": global }),
        )
        .await;
        infrastructure
            .provider("im", infrastructure.basic("http://127.0.0.1:1"))
            .await;
        let provider = json!({ "kind": "GlobalInfrastructureProvider", "name": "im" });
        let spec = json!({ "providerRef": provider, "generic": { "type": "Dummy" } });
        let kind = InfrastructureKind::GlobalCloud;
        create(&infrastructure, kind, "everywhere", spec.clone()).await;
        let cloud = json!({ "metadata": { "name": "own" }, "spec": spec });
        scene.create(infrastructure.clouds(), cloud).await;

        let _operator = infrastructure
            .operator(&["--global-secret-namespace", &central.namespace])
            .await;
        let template = templates::single_node(&kubeconfig());
        for (name, kind, cloud) in [
            ("one", "GlobalCloud", "everywhere"),
            ("two", "Cloud", "own"),
        ] {
            let cloud = json!({ "kind": kind, "name": cloud });
            let spec = json!({ "tosca": template, "cloudRef": cloud });
            infrastructure.cluster_with(name, spec).await;
            let is_there = |status: &podloom_api::ClusterStatus| {
                condition(status, "KubeconfigReady") == "True/Stored"
            };
            infrastructure
                .until_of(name, "is configured", is_there)
                .await;
        }
        assert_eq!(infrastructure.owner.list().len(), 2);
    });
}

async fn create(
    infrastructure: &Infrastructure<'_>,
    kind: InfrastructureKind,
    name: &str,
    spec: Value,
) {
    let api: Api<DynamicObject> = infrastructure.global(kind);
    let object = DynamicObject::new(name, &kind.resource()).data(json!({ "spec": spec }));
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// A registered cluster is only probed: nothing is asked of any Infrastructure Manager, since there is none.
#[test]
fn a_registered_cluster_is_probed() {
    blackbox_on(
        Cluster::without_operator,
        "infra-registered",
        async |scene| {
            let im = ImServer::shared().await;
            let infrastructure = Infrastructure::bare(&scene, im);
            let api_server = Proxy::start(infrastructure.kubeconfig());
            let text = infrastructure.kubeconfig_behind(&api_server);
            let _operator = infrastructure.operator(&["--probe-clusters", "true"]).await;
            let spec = json!({ "kubeconfigSecretRef": { "name": "mine" } });
            infrastructure.cluster_with(CLUSTER, spec).await;
            let status = infrastructure
                .until_condition("Connected", "False/ProbeFailed")
                .await;
            assert_eq!(status.state, Some(ClusterState::Connecting));
            let told = message(&status, "Connected");
            assert!(told.contains("Secret mine"), "{told}");
            infrastructure
                .secret("mine", json!({ "kubeconfig": text }))
                .await;
            let status = infrastructure.until_state(ClusterState::Online).await;
            let conditions = status.conditions.unwrap();
            let mut kinds: Vec<&str> = conditions.iter().map(|it| it.type_.as_str()).collect();
            kinds.sort_unstable();
            assert_eq!(kinds, ["Connected", "Ready"]);
            api_server.drop_connections();
            api_server.silence_all();
            infrastructure.until_state(ClusterState::Connecting).await;
            api_server.resume();
            infrastructure.until_state(ClusterState::Online).await;
            infrastructure.until_gone().await;
        },
    );
}
