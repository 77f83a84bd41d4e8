//! An API server that goes and comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use podloom_api::{Browser, Phase};
use podloom_tests::{Cluster, blackbox_on, eventually_within};
use serde_json::json;

/// An API server that starts may let a watch wait for half a minute.
const LONG: Duration = Duration::from_secs(150);

fn runs(browser: &Browser) -> bool {
    browser.status.as_ref().and_then(|status| status.phase) == Some(Phase::Running)
}

#[test]
fn an_operator_outlives_its_api_server() {
    blackbox_on(
        || Arc::new(Cluster::installed()),
        "api-server",
        async |scene| {
            let operator = scene.operator(&[]).await;
            let id = operator.id();
            scene.behaviours().await;
            let names: Vec<String> = (0..80).map(|number| format!("b{number}")).collect();
            let pods = scene.watch_pods().await;
            for name in &names {
                scene.browser(name, "running").await;
            }
            pods.until("the work has begun", |changes| {
                (changes.len() > 10).then_some(())
            })
            .await;
            tokio::task::block_in_place(|| scene.cluster.plane.restart_api_server()).unwrap();
            eventually_within("all run", LONG, async || {
                let listed = scene.browsers().list(&Default::default()).await;
                let browsers = listed.map_err(|error| error.to_string())?.items;
                let late: Vec<String> = browsers
                    .iter()
                    .filter(|browser| !runs(browser))
                    .map(ResourceExt::name_any)
                    .collect();
                late.is_empty().then_some(()).ok_or(format!("{late:?}"))
            })
            .await;
            for name in &names {
                scene
                    .patch_browser(
                        name,
                        json!({ "metadata": { "labels": { "selenosis.io/browser": null } } }),
                    )
                    .await;
                scene.delete_browser(name).await;
            }
            scene.nothing_is_left().await;
            assert_eq!(operator.id(), id, "the same process");
            operator.ready().await;

            let mut made: BTreeMap<String, usize> = BTreeMap::new();
            for request in scene
                .cluster
                .requests_of("system:serviceaccount:podloom-system:podloom")
            {
                if request.verb == "create" && request.resource == "pods" && request.status == 201 {
                    *made.entry(request.name).or_default() += 1;
                }
            }
            let twice: Vec<_> = made.iter().filter(|(_, count)| **count > 1).collect();
            assert!(twice.is_empty(), "{twice:?}");
        },
    );
}
