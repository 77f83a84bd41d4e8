//! A candidate whose plugins do what they like: no pod may be refused, changed or delayed by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use podloom_tests::webhook::{Route, STAMP, Webhook, dry_run};
use podloom_tests::{Cluster, MountedBundle, Scene, blackbox_on, eventually};
use serde_json::json;
use tokio::task::JoinSet;

use super::{answer, count, path, pod, reloads, team};

/// How long a plugin of the candidate may run in these tests. No pod waits for so long.
const LIMIT: Duration = Duration::from_secs(3);
/// How many pods are created at once.
const AT_ONCE: usize = 8;

/// Creates so many pods, of which none may be refused, changed or delayed.
async fn storm(scene: &Scene, count: usize, label: (&'static str, &'static str)) {
    let left = Arc::new(AtomicUsize::new(count));
    let mut senders = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (pods, left) = (scene.pods(), Arc::clone(&left));
        senders.spawn(async move {
            let one_less = |left: usize| left.checked_sub(1);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                .is_ok()
            {
                let asked = Instant::now();
                let created = pods.create(&dry_run(), &pod("stormy", label)).await;
                let created = created.unwrap();
                assert!(created.annotations().contains_key(STAMP));
                assert_eq!(created.labels()["team"], "one");
                assert!(asked.elapsed() < LIMIT, "{:?}", asked.elapsed());
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
}

#[test]
fn a_hostile_candidate_harms_nobody() {
    blackbox_on(
        Cluster::without_operator,
        "candidate-hostile",
        async |scene| {
            let (serving, candidate) = (MountedBundle::of(&team("one")), MountedBundle::of("[]"));
            let webhook = Webhook::new(&scene, Route::Url);
            let operator = webhook
                .operator(serving.path(), &["--candidate", path(&candidate)])
                .await;
            let hostile = [
                ("eats", ("eat", "please"), "failed"),
                ("breaks", ("break", "please"), "failed"),
                ("denies", ("app", "web"), "denied"),
                ("loops", ("loop", "please"), "failed"),
            ];
            for (plugin, label, result) in hostile {
                let entry = format!(
                    "\n- {{ name: {plugin}, file: {plugin}.wasm, allow: [/metadata/labels], limits: {{ timeout: 3s }} }}"
                );
                reloads(&operator, || candidate.update(&entry)).await;
                storm(&scene, 300, label).await;
                assert_eq!(operator.get("/readyz").unwrap().0, 200);
                if plugin == "loops" {
                    // On a busy machine, none has run for as long as it may.
                    let seen = answer(&operator);
                    assert!(count(&seen, "dropped") > 100, "{seen:#}");
                    continue;
                }
                let seen = eventually("a pod is compared", async || {
                    // Those of the storm may all have been dropped.
                    storm(&scene, 1, label).await;
                    let seen = answer(&operator);
                    let is_so = count(&seen, result) >= 1;
                    is_so.then_some(seen.clone()).ok_or(format!("{seen:#}"))
                })
                .await;
                assert_eq!(seen["groups"][0]["plugins"], json!([plugin]), "{seen:#}");
            }
            assert!(operator.logged(&["WARN", "stormy"]).is_empty());
            let reviews = "podloom_webhook_requests_total{endpoint=\"mutate/pods\",outcome=";
            assert!(operator.metric(&format!("{reviews}\"mutated\"")) > 0.0);
            assert_eq!(operator.metric(&format!("{reviews}\"denied\"")), 0.0);
        },
    );
}
