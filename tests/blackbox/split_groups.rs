//! The same kinds in the groups of today's Selenosis installations.

use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::conditions::is_deleted;
use kube::runtime::wait::await_condition;
use podloom_api::{BrowserConfigObject, BrowserObject, Kind, Phase, SelenosisApi};
use podloom_tests::{Cluster, PATIENCE, blackbox_on, within};
use serde_json::json;

#[test]
fn browsers_of_the_split_groups_live_and_die() {
    blackbox_on(Cluster::without_operator, "split-groups", async |scene| {
        let _operator = scene.operator(&["--selenosis-api", "split"]).await;
        let api = SelenosisApi::Split;
        let (kind, config_kind) = (
            api.resource(Kind::Browser),
            api.resource(Kind::BrowserConfig),
        );
        let browsers: Api<BrowserObject> =
            Api::namespaced_with(scene.client.clone(), &scene.namespace, &kind);
        let configs: Api<BrowserConfigObject> =
            Api::namespaced_with(scene.client.clone(), &scene.namespace, &config_kind);
        let config = json!({
            "apiVersion": config_kind.api_version, "kind": "BrowserConfig", "metadata": { "name": "c" },
            "spec": { "browsers": { "chrome": { "1": { "image": "example.com/chrome:1" } } } },
        });
        let config = serde_json::from_value(config).unwrap();
        configs
            .create(&PostParams::default(), &config)
            .await
            .unwrap();
        let browser = json!({
            "apiVersion": kind.api_version, "kind": "Browser", "metadata": { "name": "b" },
            "spec": { "browserName": "chrome", "browserVersion": "1" },
        });
        let browser = serde_json::from_value(browser).unwrap();
        let browser = browsers
            .create(&PostParams::default(), &browser)
            .await
            .unwrap();
        let runs = |browser: Option<&BrowserObject>| {
            let status = browser.and_then(|browser| browser.status.as_ref());
            status.is_some_and(|status| {
                status.phase == Some(Phase::Running) && status.pod_ip.is_some()
            })
        };
        let running = await_condition(browsers.clone(), "b", runs);
        within("the Browser runs", PATIENCE, running).await.unwrap();
        let accepted = |config: Option<&BrowserConfigObject>| {
            config.is_some_and(|config| {
                config
                    .status
                    .as_ref()
                    .is_some_and(|status| status.version.is_some())
            })
        };
        within(
            "the config is accepted",
            PATIENCE,
            await_condition(configs, "c", accepted),
        )
        .await
        .unwrap();
        let owners = scene
            .pods()
            .get("b")
            .await
            .unwrap()
            .metadata
            .owner_references
            .unwrap();
        assert_eq!(owners[0].api_version, "browser.selenosis.io/v1");
        browsers
            .delete("b", &DeleteParams::default())
            .await
            .unwrap();
        let uid = browser.metadata.uid.unwrap();
        within(
            "the Browser is gone",
            PATIENCE,
            await_condition(browsers, "b", is_deleted(&uid)),
        )
        .await
        .unwrap();
        scene.nothing_is_left().await;
    });
}
