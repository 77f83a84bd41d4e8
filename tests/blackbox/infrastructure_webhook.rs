//! Clusters, Clouds and InfrastructureProviders that are checked before they are stored.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use podloom_api::InfrastructureKind;
use podloom_tests::webhook::{Route, Webhook, address};
use podloom_tests::{Cluster, Scene, blackbox_on, eventually, standard};
use serde_json::{Value, json};

fn api(scene: &Scene, kind: InfrastructureKind) -> Api<DynamicObject> {
    Api::namespaced_with(scene.client.clone(), &scene.namespace, &kind.resource())
}

fn object(kind: InfrastructureKind, name: &str, spec: &Value) -> DynamicObject {
    let resource: ApiResource = kind.resource();
    DynamicObject::new(name, &resource).data(json!({ "spec": spec }))
}

fn template(policies: &Value) -> Value {
    let outputs = json!({ "kubeconfig": { "value": "x" } });
    json!({ "topology_template": { "outputs": outputs, "policies": policies } })
}

/// Creates an object; if it is refused, returns why.
async fn create(scene: &Scene, kind: InfrastructureKind, spec: Value) -> Result<(), String> {
    let object = object(kind, "a", &spec);
    let created = api(scene, kind)
        .create(&PostParams::default(), &object)
        .await;
    created.map(drop).map_err(message)
}

/// Replaces the template of the Cluster; if that is refused, returns why.
async fn edit(scene: &Scene, template: &Value) -> Result<(), String> {
    let change = json!([{ "op": "replace", "path": "/spec/tosca", "value": template }]);
    let patch = Patch::Json::<()>(serde_json::from_value(change).unwrap());
    let clusters = api(scene, InfrastructureKind::Cluster);
    let patched = clusters.patch("a", &PatchParams::default(), &patch).await;
    patched.map(drop).map_err(message)
}

fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    }
}

#[track_caller]
fn refused(result: &Result<(), String>, expected: &str) {
    let message = result.as_ref().expect_err("it was stored");
    assert!(message.contains(expected), "{message}");
}

/// What no schema can say is said by the webhook. For a change it compares the template with what the status says was applied.
#[test]
fn the_webhook_refuses_what_could_never_be_sent() {
    blackbox_on(Cluster::without_operator, "infra-webhook", async |scene| {
        use InfrastructureKind as Kind;
        let webhook = Webhook::new(&scene, Route::Url);
        let operator = webhook.spawn(&standard(), &[]);
        webhook.configure_infrastructure(address(&operator).await);
        operator.ready().await;
        let token = json!({ "name": "token" });
        let provider = |port| json!({ "im": { "url": format!("https://im.example.com:{port}"), "tokenSecretRef": token } });
        eventually(
            "a provider with a port that is none is refused",
            async || {
                let result = create(&scene, Kind::InfrastructureProvider, provider(99_999)).await;
                let message = result.err().ok_or("it was stored")?;
                let expected = "denied the request: spec.im.url: the port";
                message.contains(expected).then_some(()).ok_or(message)
            },
        )
        .await;
        let stored = create(&scene, Kind::InfrastructureProvider, provider(8800)).await;
        assert_eq!(stored, Ok(()));

        let auth = json!({ "applicationCredential": { "id": "x", "secretRef": token } });
        let cloud = json!({
            "providerRef": { "kind": "InfrastructureProvider", "name": "a" },
            "openstack": { "url": "https://keystone.example.com:99999", "auth": auth },
        });
        refused(
            &create(&scene, Kind::Cloud, cloud).await,
            "spec.openstack.url: the port",
        );

        let mut odd = template(&json!([]));
        odd["metadata"] = json!([]);
        refused(
            &create(&scene, Kind::Cluster, json!({ "tosca": odd })).await,
            "denied the request: spec.tosca.metadata: it must be an object",
        );
        let two = template(&json!([1, 2]));
        assert_eq!(
            create(&scene, Kind::Cluster, json!({ "tosca": two })).await,
            Ok(())
        );
        changes_are_compared_with_the_status(&scene, &two).await;
        assert!(
            operator.metric("podloom_webhook_requests_total{endpoint=\"validate/clusters\"") >= 1.0
        );
    });
}

async fn changes_are_compared_with_the_status(scene: &Scene, applied: &Value) {
    let one = template(&json!([1]));
    // Nothing was sent yet, so everything can change.
    assert_eq!(edit(scene, &one).await, Ok(()));
    assert_eq!(edit(scene, applied).await, Ok(()));
    let clusters = api(scene, InfrastructureKind::Cluster);
    let status = json!({ "status": { "lastAppliedTosca": applied } });
    let (all, status) = (PatchParams::default(), Patch::Merge(status));
    clusters.patch_status("a", &all, &status).await.unwrap();
    refused(
        &edit(scene, &one).await,
        "spec.tosca.topology_template.policies: the list cannot become shorter",
    );
    assert_eq!(edit(scene, &template(&json!([1, 3]))).await, Ok(()));
    // The operator's own writes pass.
    let finalizers = json!({ "metadata": { "labels": { "a": "b" } } });
    let cluster = clusters
        .patch("a", &all, &Patch::Merge(finalizers))
        .await
        .unwrap();
    assert_eq!(cluster.labels().len(), 1);
}
