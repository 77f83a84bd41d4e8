//! Hooks of Helm releases on a real control plane: pods, and one that takes too long.

use podloom_tests::cleaner::Cleaners;
use podloom_tests::helm::Helm;
use podloom_tests::{Cluster, blackbox_on, eventually};
use serde_json::json;

use crate::cleaner_helm::{OBJECTS, changes, is_whole, job, records, uninstall};

/// A Pod that is a pre-delete hook and behaves like this.
fn pod(name: &str, behaviour: &str, policy: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{ kubelet.test/behaviour: {behaviour} }}
  annotations:
    helm.sh/hook: pre-delete
    helm.sh/hook-delete-policy: {policy}
spec: {{ restartPolicy: Never, containers: [{{ name: main, image: main }}] }}
"
    )
}

#[test]
fn a_hook_may_be_a_pod() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-helm-pod",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let helm = Helm::new(&scene);
            let hook = pod("check", "succeeded", "before-hook-creation,hook-succeeded");
            let chart = helm.chart(&[("objects.yaml", OBJECTS), ("hook.yaml", &hook)]);
            helm.install_three(&chart);
            let _operator = cleaners.operator(&[]).await;
            cleaners.create("shop", uninstall(json!({}))).await;
            cleaners.until_gone("shop", &["settings"]).await;
            assert_eq!(helm.releases(), Vec::<String>::new());
            eventually("the audit log has all requests", async || {
                let found = changes(&scene);
                let place = |text: &str| found.iter().position(|it| it == text);
                let order = [
                    "create pods/check",
                    "delete pods/check",
                    "delete services/web",
                ];
                let places: Option<Vec<usize>> = order.into_iter().map(place).collect();
                match places {
                    Some(places) if places.is_sorted() => Ok(()),
                    _ => Err(format!("{found:#?}")),
                }
            })
            .await;
        },
    );
}

#[test]
fn a_pod_that_fails_is_a_failed_hook() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-helm-pod-fails",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let helm = Helm::new(&scene);
            let hook = pod("check", "failed", "hook-failed");
            let chart = helm.chart(&[("objects.yaml", OBJECTS), ("hook.yaml", &hook)]);
            helm.install_three(&chart);
            let _operator = cleaners.operator(&[]).await;
            cleaners.create("shop", uninstall(json!({}))).await;
            let failed = "Warning HelmUninstallFailed: pre-delete hook Pod check failed: the phase of the pod is Failed";
            scene.has_event("shop", failed).await;
            assert!(is_whole(&scene).await);
            assert_eq!(records(&scene).await.len(), 3);
            let other = |it: &String| !it.ends_with("pods/check");
            let changes: Vec<String> = changes(&scene).into_iter().filter(other).collect();
            assert_eq!(changes, Vec::<String>::new());
        },
    );
}

#[test]
fn a_hook_that_takes_longer_than_its_timeout_has_failed() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-helm-late",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let helm = Helm::new(&scene);
            // Such a pod stays as it is.
            let waits = "{ kubelet.test/behaviour: none }";
            let hook = job("backup", "pre-delete", 0, waits, "");
            let chart = helm.chart(&[("objects.yaml", OBJECTS), ("hook.yaml", &hook)]);
            helm.install_three(&chart);
            let _operator = cleaners.operator(&[]).await;
            let spec = uninstall(json!({ "hookTimeout": "3s" }));
            cleaners.create("shop", spec).await;
            let failed = "Warning HelmUninstallFailed: pre-delete hook Job backup failed: it took longer than 3s";
            scene.has_event("shop", failed).await;
            eventually("the hook runs again", async || {
                let changes = changes(&scene);
                let runs = changes.iter().filter(|it| *it == "create jobs/backup");
                match runs.count() {
                    2.. => Ok(()),
                    _ => Err(format!("{changes:#?}")),
                }
            })
            .await;
            assert!(is_whole(&scene).await);
            assert_eq!(records(&scene).await.len(), 3);
            // The way out.
            let helm_field = json!({ "helm": { "disableHooks": true } });
            cleaners.edit("shop", helm_field).await;
            cleaners.until_gone("shop", &["settings"]).await;
            assert_eq!(helm.releases(), Vec::<String>::new());
        },
    );
}
