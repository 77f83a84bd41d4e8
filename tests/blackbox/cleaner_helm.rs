//! A release that the real helm has installed is uninstalled, and helm agrees.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use podloom_tests::cleaner::Cleaners;
use podloom_tests::helm::{Helm, RELEASE};
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::{Value, json};

/// The account of the controller of Cleaners.
const ACCOUNT: &str = "system:serviceaccount:podloom-system:podloom-cleaner";

pub(crate) const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: settings }
data: { color: '{{ .Values.color }}', password: hunter2 }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: kept, annotations: { helm.sh/resource-policy: keep } }
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { selector: { app: web }, ports: [{ port: 80 }] }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: web, image: web }] }
";

/// A Job that is a hook, whose pod has these labels.
pub(crate) fn job(name: &str, event: &str, weight: i32, labels: &str, policy: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations:
    helm.sh/hook: {event}
    helm.sh/hook-weight: '{weight}'
    {policy}
spec:
  backoffLimit: 0
  template:
    metadata: {{ labels: {labels} }}
    spec: {{ restartPolicy: Never, containers: [{{ name: main, image: main }}] }}
"
    )
}

const SUCCEEDED: &str = "helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded";

fn secrets(scene: &Scene) -> Api<Secret> {
    Api::namespaced(scene.client.clone(), &scene.namespace)
}

fn jobs(scene: &Scene) -> Api<Job> {
    Api::namespaced(scene.client.clone(), &scene.namespace)
}

/// The names of the records of the release.
pub(crate) async fn records(scene: &Scene) -> Vec<String> {
    let owned = ListParams::default().labels("owner=helm");
    let records = secrets(scene).list_metadata(&owned).await.unwrap();
    let names = records.items.into_iter().map(|it| it.metadata.name);
    names.map(Option::unwrap).collect()
}

/// The requests of the controller that change something in the namespace, except for Cleaners and Events: `verb resource/name`.
pub(crate) fn changes(scene: &Scene) -> Vec<String> {
    let requests = scene.cluster.requests_of(ACCOUNT).into_iter();
    let is_change = |verb: &str| !matches!(verb, "get" | "list" | "watch");
    let changes = requests.filter(|it| it.namespace == scene.namespace && it.status < 300);
    changes
        .filter(|it| is_change(&it.verb) && !matches!(&*it.resource, "cleaners" | "events"))
        .map(|it| format!("{} {}/{}", it.verb, it.resource, it.name))
        .collect()
}

/// A spec that uninstalls the release, with these fields of `helm` besides.
pub(crate) fn uninstall(more: Value) -> Value {
    let mut helm = json!({ "release": RELEASE, "delete": true });
    if let (Some(helm), Value::Object(more)) = (helm.as_object_mut(), more) {
        helm.extend(more);
    }
    json!({ "helm": helm })
}

/// Whether the objects of the chart are all there, and not being deleted.
pub(crate) async fn is_whole(scene: &Scene) -> bool {
    let namespace = &scene.namespace;
    let services: Api<Service> = Api::namespaced(scene.client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(scene.client.clone(), namespace);
    let service = services.get_opt("web").await.unwrap();
    let deployment = deployments.get_opt("web").await.unwrap();
    let found = [
        service.map(|it| it.metadata),
        deployment.map(|it| it.metadata),
    ];
    let is_there = found
        .iter()
        .flatten()
        .filter(|it| it.deletion_timestamp.is_none());
    is_there.count() == found.len()
}

#[test]
fn a_release_of_three_revisions_is_uninstalled_as_helm_does_it() {
    blackbox_on(Cluster::without_operator, "cleaner-helm", async |scene| {
        let cleaners = Cleaners::new(&scene);
        let helm = Helm::new(&scene);
        let hooks = [
            job("second", "pre-delete", 5, "{}", SUCCEEDED),
            job("first", "pre-delete", -5, "{}", SUCCEEDED),
            job("after", "post-delete", 0, "{}", ""),
        ];
        let chart = helm.chart(&[
            ("objects.yaml", OBJECTS),
            ("hooks.yaml", &hooks.join("---")),
        ]);
        helm.install_three(&chart);
        assert_eq!(records(&scene).await.len(), 3);
        let operator = cleaners.operator(&[]).await;
        cleaners.create("shop", uninstall(json!({}))).await;
        cleaners.until_gone("shop", &["settings"]).await;
        assert_eq!(helm.releases(), Vec::<String>::new());
        assert_eq!(records(&scene).await, Vec::<String>::new());
        assert!(cleaners.has_map("kept").await);
        let job = |name: &str| format!("create jobs/{name}");
        let record = |number: u8| format!("secrets/sh.helm.release.v1.shop.v{number}");
        let delete = |what: &str| format!("delete {what}");
        let expected = [
            job("first"),
            job("second"),
            delete("jobs/first"),
            delete("jobs/second"),
            format!("patch {}", record(3)),
            delete("services/web"),
            delete("deployments/web"),
            delete("configmaps/settings"),
            job("after"),
            delete(&record(1)),
            delete(&record(2)),
            delete(&record(3)),
        ];
        eventually("the audit log has all requests", async || {
            let found = changes(&scene);
            (found == expected)
                .then_some(())
                .ok_or_else(|| format!("{found:#?}"))
        })
        .await;
        // What has no other policy stays until the hook runs again.
        assert!(jobs(&scene).get_opt("after").await.unwrap().is_some());
        scene
            .events_are(
                "shop",
                &[
                    "Normal ConditionsMet: ",
                    "Normal HelmReleaseUninstalled: uninstalled the Helm release shop; kept as the chart says: ConfigMap/kept",
                ],
            )
            .await;
        let uninstalled = "podloom_cleaner_helm_uninstalls_total{outcome=\"uninstalled\"}";
        assert!(operator.metric(uninstalled) > 0.0);
        assert!(!operator.printed().contains("hunter2"));
    });
}

#[test]
fn a_release_that_does_not_exist_counts_as_uninstalled() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-helm-none",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let _operator = cleaners.operator(&[]).await;
            cleaners.create("shop", uninstall(json!({}))).await;
            cleaners.until_gone("shop", &[]).await;
            scene
                .has_event(
                    "shop",
                    "Normal HelmReleaseUninstalled: there is no Helm release shop",
                )
                .await;
        },
    );
}

#[test]
fn a_failed_pre_delete_hook_deletes_nothing_and_runs_again() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-helm-failing",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let helm = Helm::new(&scene);
            let fails = "{ kubelet.test/behaviour: failed }";
            let hook = job("backup", "pre-delete", 0, fails, "");
            let chart = helm.chart(&[("objects.yaml", OBJECTS), ("hook.yaml", &hook)]);
            helm.install_three(&chart);
            let _operator = cleaners.operator(&[]).await;
            cleaners.create("shop", uninstall(json!({}))).await;
            let failed = "Warning HelmUninstallFailed: pre-delete hook Job backup failed: ";
            scene.has_event("shop", failed).await;
            eventually("the hook has run three times", async || {
                let changes = changes(&scene);
                let runs = changes.iter().filter(|it| *it == "create jobs/backup");
                match runs.count() {
                    3.. => Ok(()),
                    _ => Err(format!("{changes:#?}")),
                }
            })
            .await;
            let other = |it: &String| !it.ends_with("jobs/backup");
            let changes: Vec<String> = changes(&scene).into_iter().filter(other).collect();
            assert_eq!(changes, Vec::<String>::new());
            assert!(is_whole(&scene).await);
            assert_eq!(records(&scene).await.len(), 3);
            assert_eq!(helm.releases(), [RELEASE]);
            // The way out.
            let helm_field = json!({ "helm": { "disableHooks": true } });
            cleaners.edit("shop", helm_field).await;
            cleaners.until_gone("shop", &["settings"]).await;
            assert_eq!(helm.releases(), Vec::<String>::new());
        },
    );
}

#[test]
fn a_hook_that_runs_while_the_operator_restarts_runs_once() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-helm-restart",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let helm = Helm::new(&scene);
            // Such a pod stays as it is.
            let waits = "{ kubelet.test/behaviour: none }";
            let hook = job("backup", "pre-delete", 0, waits, "");
            let chart = helm.chart(&[("objects.yaml", OBJECTS), ("hook.yaml", &hook)]);
            helm.install_three(&chart);
            let mut operator = cleaners.operator(&[]).await;
            cleaners.create("shop", uninstall(json!({}))).await;
            let uid = eventually("the status has the hook", async || {
                let cleaner = cleaners.api().get("shop").await.unwrap();
                let deletion = cleaner.status.and_then(|status| status.deletion);
                let hook = deletion.and_then(|it| it.helm?.hook);
                let uid = hook.clone().and_then(|hook| hook.uid);
                uid.ok_or_else(|| format!("{hook:?}"))
            })
            .await;
            operator.kill();
            operator.restart();
            operator.ready().await;
            let job = jobs(&scene).get("backup").await.unwrap();
            assert_eq!(job.metadata.uid, Some(uid));
            let pods = scene.pods();
            let of_job = ListParams::default().labels("job-name=backup");
            let pod = eventually("the hook has a pod", async || {
                let found = pods.list(&of_job).await.unwrap().items;
                found.into_iter().next().ok_or_else(String::new)
            })
            .await;
            let patch = json!({ "metadata": { "labels": { "kubelet.test/behaviour": null } } });
            let name = pod.metadata.name.unwrap();
            pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .unwrap();
            cleaners.until_gone("shop", &["settings"]).await;
            let changes = changes(&scene);
            let runs = changes.iter().filter(|it| *it == "create jobs/backup");
            assert_eq!(runs.count(), 1, "{changes:#?}");
            assert_eq!(helm.releases(), Vec::<String>::new());
        },
    );
}

#[test]
fn of_a_release_whose_history_was_kept_only_that_is_deleted() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-helm-history",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let helm = Helm::new(&scene);
            let chart = helm.chart(&[("objects.yaml", OBJECTS)]);
            helm.install_three(&chart);
            helm.run(&["uninstall", RELEASE, "--keep-history"]);
            assert_eq!(helm.releases(), [RELEASE]);
            // Somebody has made it anew, without helm.
            cleaners.map("settings", json!({}), "new").await;
            let _operator = cleaners.operator(&[]).await;
            cleaners.create("shop", uninstall(json!({}))).await;
            cleaners.until_gone("shop", &[]).await;
            assert_eq!(helm.releases(), Vec::<String>::new());
            assert!(cleaners.has_map("settings").await);
        },
    );
}

#[test]
fn a_corrupt_record_deletes_nothing_and_stops_no_other_cleaner() {
    blackbox_on(
        Cluster::without_operator,
        "cleaner-helm-corrupt",
        async |scene| {
            let cleaners = Cleaners::new(&scene);
            let helm = Helm::new(&scene);
            let chart = helm.chart(&[("objects.yaml", OBJECTS)]);
            helm.install_three(&chart);
            let name = "sh.helm.release.v1.shop.v3";
            let whole = secrets(&scene).get(name).await.unwrap().data.unwrap();
            let set = async |data: Value| {
                let patch = Patch::Merge(json!({ "data": data }));
                let parameters = PatchParams::default();
                secrets(&scene)
                    .patch(name, &parameters, &patch)
                    .await
                    .unwrap();
            };
            set(json!({ "release": "aHVudGVyMg==" })).await;
            let operator = cleaners.operator(&[]).await;
            cleaners.create("shop", uninstall(json!({}))).await;
            let failed = format!(
                "Warning HelmUninstallFailed: the Secret {name} cannot be used: the payload of the release is not"
            );
            scene.has_event("shop", &failed).await;
            let absent = json!({ "helm": { "release": "absent", "delete": true } });
            cleaners.create("other", absent).await;
            cleaners.until_gone("other", &[]).await;
            assert!(is_whole(&scene).await);
            assert_eq!(changes(&scene), Vec::<String>::new());
            set(serde_json::to_value(whole).unwrap()).await;
            cleaners.until_gone("shop", &["settings"]).await;
            assert_eq!(helm.releases(), Vec::<String>::new());
            assert!(!operator.printed().contains("hunter2"));
        },
    );
}
