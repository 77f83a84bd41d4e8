//! What drifted, as a metric of the operator.

use podloom_tests::webhook::{Route, Webhook, plain_pod};
use podloom_tests::{Bundle, Cluster, Operator, blackbox_on, eventually, rbac};

use super::{STRICT, configure, create, debug, pods_without_the_chain, serve};

fn looks(operator: &Operator, outcome: &str) -> f64 {
    operator.metric(&format!(
        "podloom_drift_looks_total{{outcome=\"{outcome}\"}}"
    ))
}

#[test]
fn what_drifted_is_a_metric() {
    blackbox_on(Cluster::without_operator, "drift-metric", async |scene| {
        let (webhook, bundle) = (Webhook::new(&scene, Route::Url), Bundle::of(STRICT));
        configure(&scene, &webhook).await;
        pods_without_the_chain(&scene).await;
        let operator = webhook.spawn(bundle.path(), &["--webhook-drift-interval", "500ms"]);
        // Without the right to list pods, reviews are answered all the same.
        serve(&scene, &webhook, &operator).await;
        eventually("a look has failed", async || {
            let failed = looks(&operator, "failed");
            (failed > 0.0)
                .then_some(())
                .ok_or_else(|| operator.tail("drift"))
        })
        .await;
        assert!(looks(&operator, "complete") < 1.0);
        let (name, home) = (webhook.name.as_str(), webhook.home.as_str());
        let rights = [
            "--for",
            "drift",
            "--webhook-name",
            name,
            "--operator-namespace",
            home,
        ];
        scene.cluster.apply_text(&rbac(&rights));
        create(&scene, &plain_pod("changed")).await;
        debug(&scene, "changed", "busybox:forbidden").await;
        let namespace = scene.namespace.as_str();
        let label = [
            "label",
            "pod",
            "changed",
            "--overwrite",
            "team=other",
            "-n",
            namespace,
        ];
        scene.cluster.kubectl(&label);
        let of = |result: &str| {
            let labels = format!("namespace=\"{namespace}\",result=\"{result}\"");
            operator.metric(&format!("podloom_drift_pods{{{labels}}}"))
        };
        eventually("what drifted is shown", async || {
            let seen = ["missed", "changed", "older", "ephemeral"].map(of);
            let is_all = seen == [5.0, 1.0, 0.0, 1.0] && looks(&operator, "complete") > 0.0;
            is_all.then_some(()).ok_or_else(|| format!("{seen:?}"))
        })
        .await;
    });
}
