//! New Browsers that the admission webhook gives their finalizer and labels.

use kube::ResourceExt;
use podloom_api::Browser;
use podloom_tests::faults::Proxy;
use podloom_tests::webhook::{Policy, Route, Webhook, address, dry_run};
use podloom_tests::{Cluster, Scene, blackbox_on, eventually, standard};
use serde_json::json;

/// Runs a session, and returns how many requests of the controller changed the Browser or its pod until then.
async fn writes(scene: &Scene, proxy: &Proxy, name: &str) -> usize {
    let seen = scene.watch_browsers().await;
    let before = proxy.requests().len();
    scene.browser(name, "running").await;
    seen.until_runs(name).await;
    let requests = proxy.requests();
    let of_it = |path: &str| {
        ["/browsers/", "/pods"]
            .iter()
            .any(|part| path.contains(part))
    };
    let writes = requests.iter().skip(before);
    writes.filter(|it| it.is_write() && of_it(&it.path)).count()
}

#[test]
fn a_browser_that_the_webhook_marks_costs_a_request_less() {
    blackbox_on(Cluster::without_operator, "webhook-marks", async |scene| {
        let proxy = scene.proxy();
        let _controller = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        assert_eq!(writes(&scene, &proxy, "plain").await, 4);

        let webhook = Webhook::new(&scene, Route::Service);
        let operator = webhook.spawn(&standard(), &[]);
        let listens = address(&operator).await;
        webhook.configure_marks(listens, Policy::Ignore);
        operator.ready().await;
        let probe = json!({
            "metadata": { "name": "probe" },
            "spec": { "browserName": "chrome", "browserVersion": "running" },
        });
        let probe: Browser = serde_json::from_value(probe).unwrap();
        eventually("new Browsers are marked", async || {
            let created = scene.browsers().create(&dry_run(), &probe).await;
            let created = created.map_err(|error| error.to_string())?;
            let is_marked = !created.finalizers().is_empty();
            is_marked
                .then_some(())
                .ok_or_else(|| "it has no finalizer".to_owned())
        })
        .await;
        assert_eq!(writes(&scene, &proxy, "marked").await, 3);
        for name in ["plain", "marked"] {
            scene.delete_browser(name).await;
        }
        scene.nothing_is_left().await;
    });
}
