//! The same kinds in the groups of today's Selenosis installations.

use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::conditions::is_deleted;
use kube::runtime::wait::await_condition;
use podloom_api::{BrowserConfigObject, BrowserObject, Phase, SelenosisApi, SelenosisKind};
use podloom_tests::{Cluster, PATIENCE, Scene, blackbox_on, within};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Creates an object of a kind in the split groups.
async fn create<K>(scene: &Scene, kind: SelenosisKind, name: &str, spec: Value) -> (Api<K>, K)
where
    K: kube::Resource<DynamicType = ApiResource, Scope = kube::core::DynamicResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    let resource = SelenosisApi::Split.resource(kind);
    let api: Api<K> = Api::namespaced_with(scene.client.clone(), &scene.namespace, &resource);
    let object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": { "name": name }, "spec": spec,
    });
    let object = serde_json::from_value(object).unwrap();
    let created = api.create(&PostParams::default(), &object).await.unwrap();
    (api, created)
}

fn runs(browser: Option<&BrowserObject>) -> bool {
    let status = browser.and_then(|browser| browser.status.as_ref());
    status.is_some_and(|status| status.phase == Some(Phase::Running) && status.pod_ip.is_some())
}

fn has_version(config: Option<&BrowserConfigObject>) -> bool {
    let status = config.and_then(|config| config.status.as_ref());
    status.is_some_and(|status| status.version.is_some())
}

#[test]
fn browsers_of_the_split_groups_run_and_are_deleted() {
    blackbox_on(Cluster::without_operator, "split-groups", async |scene| {
        let _operator = scene.operator(&["--selenosis-api", "split"]).await;
        let spec =
            json!({ "browsers": { "chrome": { "1": { "image": "example.com/chrome:1" } } } });
        let (configs, _) = create(&scene, SelenosisKind::BrowserConfig, "c", spec).await;
        let spec = json!({ "browserName": "chrome", "browserVersion": "1" });
        let (browsers, browser): (_, BrowserObject) =
            create(&scene, SelenosisKind::Browser, "b", spec).await;
        let running = await_condition(browsers.clone(), "b", runs);
        within("the Browser runs", PATIENCE, running).await.unwrap();
        let accepted = await_condition(configs, "c", has_version);
        within("the config has a version", PATIENCE, accepted)
            .await
            .unwrap();
        let pod = scene.pods().get("b").await.unwrap();
        let owner = &pod.metadata.owner_references.unwrap()[0];
        assert_eq!(owner.api_version, "browser.selenosis.io/v1");
        browsers
            .delete("b", &DeleteParams::default())
            .await
            .unwrap();
        let uid = browser.metadata.uid.unwrap();
        let gone = await_condition(browsers, "b", is_deleted(&uid));
        within("the Browser is gone", PATIENCE, gone).await.unwrap();
        scene.nothing_is_left().await;
    });
}
