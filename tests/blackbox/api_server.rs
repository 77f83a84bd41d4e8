//! An API server that stops and comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use podloom_api::{Browser, Phase};
use podloom_tests::{Change, Cluster, Operator, blackbox_on, eventually, eventually_within};
use serde_json::json;

/// How long to wait: an API server that starts may delay a watch by half a minute.
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
            pods.until("the operator creates pods", |changes| {
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

/// How often the API server is killed.
const KILLS: usize = 3;
/// After this many errors the watches wait for seconds before they try again.
const ERRORS: f64 = 15.0;

#[test]
fn a_configuration_that_comes_with_its_browsers_is_found_after_a_restart() {
    blackbox_on(
        || Arc::new(Cluster::installed()),
        "api-server-configuration",
        async |scene| {
            let operator = Operator::start(&scene.cluster, &[]).await;
            let plane = &scene.cluster.plane;
            for round in 0..KILLS {
                plane.stop_api_server().unwrap();
                let broken = operator.metric("podloom_watch_errors_total") + ERRORS;
                eventually("the watches are broken", async || {
                    let errors = operator.metric("podloom_watch_errors_total");
                    (errors >= broken).then_some(()).ok_or(format!("{errors}"))
                })
                .await;
                tokio::task::block_in_place(|| plane.start_api_server()).unwrap();
                let namespace = format!("api-server-configuration-{round}");
                let scene = scene.beside(&namespace, json!({})).await;
                let seen = scene.watch_browsers().await;
                scene.behaviours().await;
                let names: Vec<String> = (0..10).map(|number| format!("b{number}")).collect();
                for name in &names {
                    scene.browser(name, "running").await;
                }
                for name in &names {
                    let what = format!("{name} runs, or has ended");
                    let browser = seen.until_within(&what, LONG, |changes| {
                        let mut seen = changes.iter().map(Change::object);
                        let has_reason = |browser: &Browser| {
                            let status = browser.status.as_ref();
                            status.is_some_and(|status| status.reason.is_some())
                        };
                        let found = seen.find(|browser| {
                            browser.name_any() == *name && (runs(browser) || has_reason(browser))
                        });
                        found.cloned()
                    });
                    let browser = browser.await;
                    assert!(runs(&browser), "{name}: {:?}", browser.status);
                }
            }
        },
    );
}
