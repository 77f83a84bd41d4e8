//! Writes that the API server rejects: they are retried with backoff, even if the Browser is reconciled in between.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use podloom_tests::faults::Proxy;
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::json;

const BROWSERS: u64 = 5;
/// How often each of them is tried in these tests.
const TRIES: u64 = 6;
/// How long the tries take at least: an object waits 0.2 s after the first, and twice as long after each further one.
const AT_LEAST: Duration = Duration::from_millis(6_200);

/// Rejects pods in the scene's namespace with a message that differs each time, and waits until that works.
async fn reject_pods(scene: &Scene) {
    let message = "'pod ' + object.metadata.uid + ' is rejected'";
    reject(
        scene,
        &json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
        }),
        "false",
        message,
    );
    let pod = json!({ "metadata": { "name": "asked" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let pod = serde_json::from_value(pod).unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("pods are rejected", async || {
        let created = scene.pods().create(&dry_run, &pod).await;
        created
            .err()
            .map(drop)
            .ok_or_else(|| "a pod was accepted".to_owned())
    })
    .await;
}

/// Rejects requests that match the rule, unless the CEL expression allows them.
fn reject(scene: &Scene, rule: &serde_json::Value, allowed: &str, message: &str) {
    let name = &scene.namespace;
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name },
            "spec": {
                "matchConstraints": { "resourceRules": [rule] },
                "validations": [{
                    // The default reason is Invalid, which the operator does not retry.
                    "expression": allowed, "messageExpression": message, "reason": "Forbidden",
                }],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } },
            },
        },
    ] });
    scene.cluster.apply_text(&objects.to_string());
}

/// Creates a quota that allows no pod. The quota controller does not run here, so the test writes the status.
async fn fill_quota(scene: &Scene) -> Api<ResourceQuota> {
    let quotas: Api<ResourceQuota> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let quota = json!({ "metadata": { "name": "full" }, "spec": { "hard": { "pods": "0" } } });
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let status = json!({ "status": { "hard": { "pods": "0" }, "used": { "pods": "0" } } });
    let patch = Patch::Merge(status);
    quotas
        .patch_status("full", &PatchParams::default(), &patch)
        .await
        .unwrap();
    quotas
}

async fn create_browsers(scene: &Scene) {
    for number in 0..BROWSERS {
        scene.browser(&format!("b{number}"), "running").await;
    }
}

/// Waits until all tries are made, and checks that the operator backed off between them.
async fn tries_back_off(proxy: &Proxy, mut meanwhile: impl AsyncFnMut()) {
    let begun = Instant::now();
    let tried = eventually("each is tried again", async || {
        meanwhile().await;
        let tried = proxy.count("create pods");
        (tried >= BROWSERS * TRIES)
            .then_some(tried)
            .ok_or(format!("{tried} tries"))
    })
    .await;
    let elapsed = begun.elapsed();
    // The first Browsers are tried before this measurement starts.
    let least = AT_LEAST.saturating_sub(Duration::from_millis(500));
    assert!(elapsed > least, "{tried} tries in {elapsed:?}");
    // Each try may write a new message. On top come each Browser's first status and its conditions.
    let statuses = proxy.count("patch browsers/status");
    assert!(
        statuses <= tried + 3 * BROWSERS,
        "{statuses} status writes for {tried} tries"
    );
}

#[test]
fn pods_that_are_rejected_with_changing_messages_back_off() {
    blackbox_on(Cluster::without_operator, "refused-words", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        reject_pods(&scene).await;
        create_browsers(&scene).await;
        tries_back_off(&proxy, async || {}).await;
    });
}

#[test]
fn configurations_that_change_meanwhile_do_not_shorten_the_backoff() {
    blackbox_on(
        Cluster::without_operator,
        "refused-configs",
        async |scene| {
            let proxy = scene.proxy();
            let _operator = scene.operator_behind(&proxy, &[]).await;
            scene.behaviours().await;
            scene
                .config(
                    "beside",
                    "browsers: { firefox: { '1': { image: 'example.com/firefox:1' } } }",
                )
                .await;
            reject_pods(&scene).await;
            create_browsers(&scene).await;
            let mut round = 0;
            tries_back_off(&proxy, async || {
                round += 1;
                let image = format!("example.com/firefox:{round}");
                let patch =
                    json!({ "spec": { "browsers": { "firefox": { "1": { "image": image } } } } });
                for config in ["beside", "behaviours"] {
                    let patch = Patch::Merge(patch.clone());
                    scene
                        .configs()
                        .patch(config, &PatchParams::default(), &patch)
                        .await
                        .unwrap();
                }
            })
            .await;
        },
    );
}

#[test]
fn pods_wait_for_a_full_quota_and_start_when_it_is_free() {
    blackbox_on(Cluster::without_operator, "refused-quota", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        let quotas = fill_quota(&scene).await;
        create_browsers(&scene).await;
        tries_back_off(&proxy, async || {}).await;
        quotas
            .delete("full", &DeleteParams::default())
            .await
            .unwrap();
        for number in 0..BROWSERS {
            seen.until_runs(&format!("b{number}")).await;
        }
    });
}

#[test]
fn a_rejected_finalizer_is_reported() {
    blackbox_on(
        Cluster::without_operator,
        "refused-finalizer",
        async |scene| {
            let _operator = scene.operator(&["--pod-creation-timeout", "5s"]).await;
            scene.behaviours().await;
            let rule = json!({
                "apiGroups": ["selenosis.io"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["browsers"],
            });
            reject(
                &scene,
                &rule,
                "!has(object.metadata.finalizers)",
                "'finalizers are not for you'",
            );
            scene.browser("probe", "pending").await;
            let finalizer = json!({ "metadata": { "finalizers": ["example.com/probe"] } });
            let dry_run = PatchParams {
                dry_run: true,
                ..PatchParams::default()
            };
            eventually("finalizers are rejected", async || {
                let patch = Patch::Merge(&finalizer);
                let patched = scene.browsers().patch("probe", &dry_run, &patch).await;
                patched
                    .err()
                    .map(drop)
                    .ok_or_else(|| "a finalizer was accepted".to_owned())
            })
            .await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            scene.browser("b", "running").await;
            seen.until_is("b", "reports why it waits", |browser| {
                let status = serde_json::to_string(&browser.status).unwrap();
                status.contains("finalizers are not for you")
            })
            .await;
            seen.until_gone("b").await;
            assert!(pods.of("b").is_empty());
        },
    );
}
