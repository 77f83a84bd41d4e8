//! Writes that the API server refuses: they are tried again at ever longer intervals, whatever wakes their Browser meanwhile.

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
/// How long that takes at least: between the tries an object waits 0.2 s, then twice as long each time.
const AT_LEAST: Duration = Duration::from_millis(6_200);

/// Refuses pods in the scene's namespace with words that differ each time, and waits until it does.
async fn deny_pods(scene: &Scene) {
    let message = "'pod ' + object.metadata.uid + ' may not be'";
    deny(
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
    eventually("pods are refused", async || {
        let created = scene.pods().create(&dry_run, &pod).await;
        created
            .err()
            .map(drop)
            .ok_or_else(|| "a pod was let in".to_owned())
    })
    .await;
}

/// Refuses what the rule names and the CEL expression does not allow.
fn deny(scene: &Scene, rule: &serde_json::Value, allowed: &str, message: &str) {
    let name = &scene.namespace;
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name },
            "spec": {
                "matchConstraints": { "resourceRules": [rule] },
                "validations": [{
                    // By default a policy calls what it refuses invalid, which is final.
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

/// A quota that lets no pod in. Its controller does not run here, so the test says what it would.
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

/// Waits for so many tries, and checks that they took their time.
async fn tries_take_their_time(proxy: &Proxy, mut meanwhile: impl AsyncFnMut()) {
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
    // The first Browsers are tried before we begin to look.
    let least = AT_LEAST.saturating_sub(Duration::from_millis(500));
    assert!(elapsed > least, "{tried} tries in {elapsed:?}");
    // Every try may have a reason of its own; besides that there is the first status, and a condition for each.
    let statuses = proxy.count("patch browsers/status");
    assert!(
        statuses <= tried + 3 * BROWSERS,
        "{statuses} status writes for {tried} tries"
    );
}

#[test]
fn pods_that_are_refused_in_other_words_each_time_wait_their_backoff_out() {
    blackbox_on(Cluster::without_operator, "refused-words", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        deny_pods(&scene).await;
        create_browsers(&scene).await;
        tries_take_their_time(&proxy, async || {}).await;
    });
}

#[test]
fn configurations_that_change_meanwhile_do_not_cut_the_backoff_short() {
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
            deny_pods(&scene).await;
            create_browsers(&scene).await;
            let mut round = 0;
            tries_take_their_time(&proxy, async || {
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
fn a_full_quota_is_waited_for_and_a_free_one_is_noticed() {
    blackbox_on(Cluster::without_operator, "refused-quota", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        let quotas = fill_quota(&scene).await;
        create_browsers(&scene).await;
        tries_take_their_time(&proxy, async || {}).await;
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
fn a_finalizer_that_is_refused_is_not_waited_for_in_silence() {
    blackbox_on(
        Cluster::without_operator,
        "refused-finalizer",
        async |scene| {
            let _operator = scene.operator(&["--pod-creation-timeout", "5s"]).await;
            scene.behaviours().await;
            let rule = json!({
                "apiGroups": ["selenosis.io"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["browsers"],
            });
            deny(
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
            eventually("finalizers are refused", async || {
                let patch = Patch::Merge(&finalizer);
                let patched = scene.browsers().patch("probe", &dry_run, &patch).await;
                patched
                    .err()
                    .map(drop)
                    .ok_or_else(|| "a finalizer was let in".to_owned())
            })
            .await;
            let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
            scene.browser("b", "running").await;
            seen.until_is("b", "says why it waits", |browser| {
                let status = serde_json::to_string(&browser.status).unwrap();
                status.contains("finalizers are not for you")
            })
            .await;
            seen.until_gone("b").await;
            assert!(pods.of("b").is_empty());
        },
    );
}
