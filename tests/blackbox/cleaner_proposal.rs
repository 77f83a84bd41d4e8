//! The example of the proposal, with stubs of its kinds.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use podloom_tests::cleaner::Cleaners;
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::json;

const NAME: &str = "shop-commit--demo";

fn fixture(name: &str, scene: &Scene) -> String {
    let path = format!("blackbox/fixtures/cleaner/{name}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(path).unwrap();
    text.replace("NAMESPACE", &scene.namespace)
}

/// A revision that has been `Active` or not since then.
fn revision(scene: &Scene, name: &str, routes: &str, active: &str, since: Timestamp) -> String {
    let revision = json!({
        "apiVersion": "serving.knative.dev/v1", "kind": "Revision",
        "metadata": { "name": name, "namespace": scene.namespace, "labels": { "example.com/proxy": "p1" },
            "annotations": { "serving.knative.dev/routes": routes } },
        "status": { "conditions": [{ "type": "Active", "status": active, "lastTransitionTime": since.to_string() }] },
    });
    revision.to_string()
}

fn hours_ago(hours: u64) -> Timestamp {
    let seconds = Timestamp::now().as_second();
    Timestamp::from_second(seconds).unwrap() - Duration::from_secs(hours * 3600)
}

#[test]
fn the_example_waits_for_its_time_and_then_for_its_revisions() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-proposal-runs",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            scene.cluster.apply_text(&fixture("knative.yaml", &scene));
            let proxy = cleaners.proxy();
            let _operator = cleaners.operator_behind(&proxy, &[]).await;
            scene.cluster.apply_text(&fixture("proposal.yaml", &scene));
            let cleaner = cleaners.until_ready(NAME, "NotExpired").await;
            let created = cleaner.metadata.creation_timestamp.unwrap().0;
            let expiry = created + Duration::from_secs(360 * 3600);
            let next = cleaner.status.unwrap().next_scheduled_evaluation;
            assert_eq!(next, Some(expiry.to_string()));
            assert_eq!(cleaner.metadata.finalizers, None);
            assert_eq!(proxy.count("list revisions"), 0);
            // The placeholder of the example is no value of a label.
            cleaners
                .edit(NAME, json!({ "ttl": "0", "dryRun": true }))
                .await;
            let expected = "TargetResolveError: target revisions: the value \"<id-of-the-proxy>\" of the label example.com/proxy";
            cleaners.until_ready(NAME, expected).await;
            revisions_decide(&scene, &cleaners).await;
        },
    );
}

/// Gives the label a value, and lets one revision after another decide.
async fn revisions_decide(scene: &Scene, cleaners: &Cleaners<'_>) {
    let apply = |name: &str, routes: &str, active: &str, hours: u64| {
        let text = revision(scene, name, routes, active, hours_ago(hours));
        scene.cluster.apply_text(&text);
    };
    apply("shop-00001", "shop-a,preview-b", "True", 400);
    let cleaner = cleaners.api().get(NAME).await.unwrap();
    let mut targets = serde_json::to_value(&cleaner.spec.targets).unwrap();
    targets[2]["reference"]["matchLabels"] = json!({ "example.com/proxy": "p1" });
    cleaners.edit(NAME, json!({ "targets": targets })).await;
    let waiting = "WaitingForConditions: conditions[0] is false";
    let cleaner = cleaners.until_ready(NAME, waiting).await;
    let listed = [
        "shop-00001.revisions.serving.knative.dev/v1",
        "shop-commit--demo-node.services.serving.knative.dev/v1",
        "shop-commit--demo.services.serving.knative.dev/v1",
    ];
    assert_eq!(cleaner.status.unwrap().resolved_targets.unwrap(), listed);
    // Idle for 350 hours: it is known when that is long enough, to the second.
    let since = hours_ago(350);
    scene
        .cluster
        .apply_text(&revision(scene, "shop-00001", "shop-a", "False", since));
    let due = (since + Duration::from_secs(360 * 3600)).to_string();
    eventually("the next look is when time makes it true", async || {
        let cleaner = cleaners.api().get(NAME).await.unwrap();
        let next = cleaner.status.unwrap().next_scheduled_evaluation;
        (next.as_deref() == Some(due.as_str()))
            .then_some(())
            .ok_or_else(|| format!("{next:?}, not {due}"))
    })
    .await;
    apply("shop-00001", "shop-a", "False", 361);
    let dry = "DryRun: all conditions are true; no object would be deleted, but spec.dryRun is true; the Helm release shop-commit--demo \
               would be uninstalled; a CloudEvent would be sent";
    cleaners.until_ready(NAME, dry).await;
    // A route of somebody else, and no annotation at all.
    apply("shop-00002", "shop-a,foreign", "False", 400);
    cleaners.until_ready(NAME, waiting).await;
    let bare = json!({ "apiVersion": "serving.knative.dev/v1", "kind": "Revision",
        "metadata": { "name": "shop-00002", "namespace": scene.namespace, "labels": { "example.com/proxy": "p1" } },
        "status": { "conditions": [] } });
    scene.cluster.kubectl(&[
        "delete",
        "revision",
        "shop-00002",
        "--namespace",
        &scene.namespace,
    ]);
    scene.cluster.apply_text(&bare.to_string());
    cleaners
        .until_ready(NAME, "ConditionEvaluationError: conditions[0]")
        .await;
    scene.cluster.kubectl(&[
        "delete",
        "revision",
        "--all",
        "--namespace",
        &scene.namespace,
    ]);
    cleaners.until_ready(NAME, dry).await;
}
