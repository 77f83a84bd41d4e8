//! What goes wrong while pods are replaced.

use std::fs;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use podloom_tests::webhook::{Policy, Route, Webhook, address};
use podloom_tests::{Bundle, Cluster, Operator, Scene, blackbox_on};
use serde_json::json;

use super::{
    EVICT, NOBODY, SOON, all, began, create, evicted, is_ready, passed, pods, spawn, spawn_with,
    stopped, workload,
};

/// Ready pods of a Deployment that missed the chain.
async fn missed(scene: &Scene, app: &str, count: usize) {
    let replicas = count.try_into().unwrap();
    create(scene, &workload("Deployment", app, replicas));
    all(scene, app, count, |pod| is_ready(pod) && !passed(pod)).await;
}

async fn answers(webhook: &Webhook, operator: &Operator) {
    webhook.configure(address(operator).await, Policy::Ignore);
    operator.ready().await;
}

/// What runs could not be created again. That costs one pod, and it goes on when the chain is mended.
#[test]
fn a_chain_that_denies_what_runs_costs_one_pod() {
    blackbox_on(Cluster::without_operator, "heal-denied", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        missed(&scene, "web", 3).await;
        let bundle = Bundle::of("[{ name: denies, file: denies.wasm }]");
        let flags = [&EVICT[..], &[SOON]].concat();
        let operator = spawn_with(&scene, &webhook, bundle.path(), &flags);
        answers(&webhook, &operator).await;
        stopped(&scene, &operator, "is not whole again in time").await;
        assert_eq!(evicted(&operator), 1.0);
        let left = pods(&scene, "web").await;
        assert_eq!(left.iter().filter(|pod| is_ready(pod)).count(), 2);

        let chain = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: [{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: { labels: [{ key: team, value: core }] } }]\n";
        let [written, manifest] = ["written", "chain.yaml"].map(|it| bundle.path().join(it));
        fs::write(&written, chain).unwrap();
        fs::rename(written, manifest).unwrap();
        all(&scene, "web", 3, |pod| is_ready(pod) && passed(pod)).await;
        assert_eq!(evicted(&operator), 3.0);
    });
}

/// What is gone needs nothing, and holds nothing up.
#[test]
fn a_namespace_that_is_deleted_meanwhile_holds_nothing_up() {
    blackbox_on(Cluster::without_operator, "heal-deleted", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        // It comes first.
        let gone = Scene::new(Arc::clone(&scene.cluster), "heal-a-gone").await;
        let names = [&scene.namespace, &gone.namespace];
        let both = json!([
            { "op": "replace", "path": "/webhooks/0/namespaceSelector", "value": {
                "matchExpressions": [{ "key": "kubernetes.io/metadata.name", "operator": "In", "values": names }],
            } },
        ])
        .to_string();
        let select_both = || {
            let configuration = ["mutatingwebhookconfiguration", &webhook.name];
            let patch = ["--type=json", "--patch", &both];
            let arguments = [&["patch"][..], &configuration, &patch].concat();
            scene.cluster.kubectl(&arguments);
        };
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        for scene in [&scene, &gone] {
            missed(scene, "web", 4).await;
        }
        // One at a time, so that what is stuck would hold up all.
        let flags = [&EVICT[..], &["--webhook-heal-owners=1"]].concat();
        let operator = spawn(&scene, &webhook, &flags);
        webhook.configure(address(&operator).await, Policy::Ignore);
        select_both();
        operator.ready().await;
        began(&operator).await;
        let namespace = ["delete", "namespace", &gone.namespace, "--timeout=60s"];
        scene.cluster.kubectl(&namespace);
        all(&scene, "web", 4, |pod| is_ready(pod) && passed(pod)).await;
        let panicked = operator.logged(&["panicked"]);
        assert!(panicked.is_empty(), "{panicked:?}");
    });
}

/// It neither loses its place nor evicts a pod that it need not.
#[test]
fn an_api_server_that_restarts_meanwhile_loses_nothing() {
    let own = || Arc::new(Cluster::installed());
    blackbox_on(own, "heal-restarted", async |scene| {
        let webhook = Webhook::new(&scene, Route::Url);
        webhook.configure(NOBODY.parse().unwrap(), Policy::Ignore);
        missed(&scene, "web", 4).await;
        let operator = spawn(&scene, &webhook, &EVICT);
        answers(&webhook, &operator).await;
        began(&operator).await;
        let of_passed = |pods: &[Pod]| {
            let passed = pods.iter().filter(|pod| passed(pod));
            passed.filter_map(ResourceExt::uid).collect::<Vec<_>>()
        };
        let before = of_passed(&pods(&scene, "web").await);
        tokio::task::block_in_place(|| scene.cluster.plane.restart_api_server()).unwrap();
        all(&scene, "web", 4, |pod| is_ready(pod) && passed(pod)).await;
        let after = of_passed(&pods(&scene, "web").await);
        assert!(before.iter().all(|uid| after.contains(uid)), "once each");
        operator.ready().await;
    });
}
