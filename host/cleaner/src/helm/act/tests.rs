use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use podloom_api::HelmProgress;
use podloom_engine::blocking::BlockingThreads;
use podloom_helm::Record;
use podloom_scripted::scripted;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{CHARTS, Tools, act};
use crate::discovery::Discovery;
use crate::helm::{
    Chart, HelmAction, HelmLearned, HelmOutcome, HelmRules, HelmWorld, SeenHook, StoredRecord,
    Sweep,
};
use crate::objects::Objects;
use crate::read::Reader;
use crate::settings::CleanerSettings;

/// A cluster with some objects by their paths, and all requests for anything but the kinds, with their bodies.
struct Cluster {
    objects: Value,
    release: Value,
    progress: Value,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

/// What the API server says of a create whose object is wrong.
const QUOTED: &str = "invalid value: \"hunter2\"";

fn kinds(path: &str) -> Option<Value> {
    let kinds = match path {
        "/api/v1" => vec![
            ("services", "Service", true),
            ("configmaps", "ConfigMap", true),
            ("namespaces", "Namespace", false),
        ],
        "/apis/batch/v1" => vec![("jobs", "Job", true)],
        "/apis/rbac.authorization.k8s.io/v1" => vec![("clusterroles", "ClusterRole", false)],
        _ => return None,
    };
    let kind = |(name, kind, namespaced): (&str, &str, bool)| json!({ "name": name, "kind": kind, "namespaced": namespaced, "singularName": "", "verbs": [] });
    let kinds: Vec<Value> = kinds.into_iter().map(kind).collect();
    Some(json!({ "groupVersion": "", "resources": kinds }))
}

fn missing(path: &str) -> (u16, Value) {
    let name = path.rsplit('/').next().unwrap();
    let status = json!({
        "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found", "details": { "name": name },
    });
    (404, status)
}

/// What the API server answers to a request about this object.
fn answer(method: &str, path: &str, object: Option<&Value>, body: Value) -> (u16, Value) {
    match (method, object) {
        ("POST", Some(refusal)) if refusal == QUOTED => {
            let status = json!({ "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": QUOTED });
            (422, status)
        }
        ("POST", _) => {
            let mut created = body;
            created["metadata"]["uid"] = json!("new");
            (201, created)
        }
        ("DELETE", Some(_)) => (200, json!({ "kind": "Status", "status": "Success" })),
        (_, Some(object)) => (200, object.clone()),
        (_, None) => missing(path),
    }
}

impl Cluster {
    fn new(release: Value, objects: Value) -> Self {
        Self {
            objects,
            release,
            progress: json!({ "release": "shop", "step": "PreDeleteHooks", "revision": 3 }),
            requests: Arc::default(),
        }
    }

    async fn act(&self, action: &HelmAction) -> HelmOutcome {
        let (objects, requests) = (self.objects.clone(), Arc::clone(&self.requests));
        let (client, _) = scripted(move |request, body| {
            let (method, path) = request.split_once(' ').unwrap();
            if let Some(kinds) = kinds(path) {
                return (200, kinds);
            }
            requests
                .lock()
                .unwrap()
                .push((request.to_owned(), body.clone()));
            answer(method, path, objects.get(path), body)
        });
        let progress: HelmProgress = serde_json::from_value(self.progress.clone()).unwrap();
        let learned = HelmLearned {
            chart: Some(Arc::new(chart(&self.release))),
            records: Some(vec![StoredRecord {
                revision: 3,
                name: "sh.helm.release.v1.shop.v3".to_owned(),
                uid: "record".to_owned(),
            }]),
            ..HelmLearned::default()
        };
        let world = HelmWorld {
            namespace: "demo",
            cleaner: "own",
            rules: Some(HelmRules {
                disables_hooks: false,
                hook_timeout: Duration::from_mins(5),
            }),
            progress: &progress,
            learned: &learned,
        };
        let settings = CleanerSettings {
            excluded_namespaces: ["kube-system".to_owned()].into(),
            ..CleanerSettings::default()
        };
        let reader = Reader {
            objects: Objects::new(client.clone()),
            discovery: Discovery::new(client),
            settings: Arc::new(settings),
        };
        let tools = Tools {
            reader: &reader,
            blocking: &BlockingThreads::new(),
            charts: &Arc::new(Semaphore::new(CHARTS.into())),
            now: "2026-01-01T02:00:00Z".parse().unwrap(),
        };
        act(tools, &world, action).await
    }

    fn made(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .map(|(request, _)| request.clone())
            .collect()
    }

    /// The body of the only request of this method.
    fn body(&self, method: &str) -> Value {
        let requests = self.requests.lock().unwrap();
        let mut found = requests.iter().filter(|(it, _)| it.starts_with(method));
        let (_, body) = found.next().unwrap();
        assert!(found.next().is_none());
        body.clone()
    }
}

fn chart(release: &Value) -> Chart {
    let mut payload = json!({
        "name": "shop", "namespace": "demo", "version": 3, "info": { "status": "deployed" }, "manifest": "", "hooks": [],
    });
    json_patch::merge(&mut payload, release);
    let record = Record {
        release: "shop",
        namespace: "demo",
        revision: 3,
    };
    let packed = STANDARD.encode(payload.to_string());
    Chart::read(packed.as_bytes(), record, "7".to_owned()).unwrap()
}

/// An object with a UID and this metadata.
fn object(metadata: &Value) -> Value {
    let mut object = json!({ "metadata": { "uid": "uid" } });
    json_patch::merge(&mut object["metadata"], metadata);
    object
}

fn owned() -> Value {
    let annotations =
        json!({ "meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "demo" });
    object(&json!({ "annotations": annotations }))
}

async fn sweep(manifest: &str, objects: Value) -> (Sweep, Cluster) {
    let cluster = Cluster::new(json!({ "manifest": manifest }), objects);
    match cluster.act(&HelmAction::DeleteObjects(0)).await {
        HelmOutcome::Swept(sweep) => (sweep, cluster),
        _ => panic!("it swept"),
    }
}

#[tokio::test]
async fn an_object_is_deleted_by_its_uid_and_what_it_owns_with_it() {
    let path = "/api/v1/namespaces/demo/services/web";
    let manifest = "{ apiVersion: v1, kind: Service, metadata: { name: web } }";
    let (sweep, cluster) = sweep(manifest, json!({ path: object(&json!({})) })).await;
    assert_eq!((sweep.done, sweep.failed), (1, 0));
    assert_eq!(
        cluster.made(),
        [format!("GET {path}"), format!("DELETE {path}")]
    );
    let body = cluster.body("DELETE");
    assert_eq!(body["preconditions"]["uid"], "uid");
    assert_eq!(body["propagationPolicy"], "Background");
}

#[tokio::test]
async fn what_is_elsewhere_is_deleted_only_if_it_says_that_it_is_of_this_release() {
    let manifest = "
{ apiVersion: v1, kind: ConfigMap, metadata: { name: ours, namespace: other } }
---
{ apiVersion: v1, kind: ConfigMap, metadata: { name: theirs, namespace: other } }
---
{ apiVersion: v1, kind: ConfigMap, metadata: { name: ours, namespace: kube-system } }
---
{ apiVersion: v1, kind: Namespace, metadata: { name: kube-system } }
---
{ apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: { name: ours } }
---
{ apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: { name: theirs } }
";
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let maps = "/api/v1/namespaces/other/configmaps";
    let objects = json!({
        format!("{maps}/ours"): owned(),
        format!("{maps}/theirs"): object(&json!({ "annotations": { "meta.helm.sh/release-name": "shop" } })),
        "/api/v1/namespaces/kube-system/configmaps/ours": owned(),
        "/api/v1/namespaces/kube-system": owned(),
        format!("{roles}/ours"): owned(),
        format!("{roles}/theirs"): object(&json!({})),
    });
    let (sweep, cluster) = sweep(manifest, objects).await;
    let made = cluster.made();
    let deleted: Vec<&String> = made.iter().filter(|it| it.starts_with("DELETE")).collect();
    assert_eq!(
        deleted,
        [
            &format!("DELETE {roles}/ours"),
            &format!("DELETE {maps}/ours")
        ]
    );
    let skipped = [
        "ClusterRole/theirs",
        "ConfigMap/other/theirs",
        "ConfigMap/kube-system/ours",
        "Namespace/kube-system",
    ];
    assert_eq!(sweep.skipped, skipped);
    assert_eq!((sweep.done, sweep.failed), (6, 0));
}

/// It has taken the object over, as Helm's documentation says: by its annotations.
#[tokio::test]
async fn what_another_release_has_in_the_same_namespace_stays() {
    let manifest = "
{ apiVersion: v1, kind: ConfigMap, metadata: { name: ours } }
---
{ apiVersion: v1, kind: ConfigMap, metadata: { name: theirs } }
---
{ apiVersion: v1, kind: ConfigMap, metadata: { name: old } }
";
    let maps = "/api/v1/namespaces/demo/configmaps";
    let theirs =
        json!({ "meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "demo" });
    let objects = json!({
        format!("{maps}/ours"): owned(),
        format!("{maps}/theirs"): object(&json!({ "annotations": theirs })),
        format!("{maps}/old"): object(&json!({})),
    });
    let (sweep, cluster) = sweep(manifest, objects).await;
    assert_eq!(sweep.skipped, ["ConfigMap/demo/theirs"]);
    let made = cluster.made();
    let deleted: Vec<&String> = made.iter().filter(|it| it.starts_with("DELETE")).collect();
    assert_eq!(
        deleted,
        [
            &format!("DELETE {maps}/ours"),
            &format!("DELETE {maps}/old")
        ]
    );
}

#[tokio::test]
async fn what_is_protected_stays_and_fails_and_what_goes_already_is_left() {
    let manifest = "
{ apiVersion: v1, kind: ConfigMap, metadata: { name: protected } }
---
{ apiVersion: v1, kind: ConfigMap, metadata: { name: going } }
";
    let maps = "/api/v1/namespaces/demo/configmaps";
    let protected = json!({ "annotations": { "cleaner.vtex.dev/protect": "true" } });
    let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let objects = json!({ format!("{maps}/protected"): object(&protected), format!("{maps}/going"): object(&going) });
    let (sweep, cluster) = sweep(manifest, objects).await;
    assert_eq!((sweep.done, sweep.failed), (2, 1));
    let failure = "ConfigMap protected: its annotation cleaner.vtex.dev/protect protects it";
    assert_eq!(sweep.first_failure.as_deref(), Some(failure));
    assert!(cluster.made().iter().all(|it| it.starts_with("GET")));
}

#[tokio::test]
async fn what_cannot_be_in_a_cluster_is_gone_and_no_part_of_a_url() {
    let manifest = "
{ apiVersion: v1, kind: ConfigMap, metadata: { name: a, namespace: ../../secrets } }
---
{ apiVersion: ../../api/v1, kind: ConfigMap, metadata: { name: a } }
---
{ apiVersion: 'v1/namespaces?x', kind: ConfigMap, metadata: { name: a } }
---
{ apiVersion: v1, kind: Unheard, metadata: { name: a } }
---
{ apiVersion: v1, kind: Service, metadata: { name: web/proxy/x } }
---
{ apiVersion: v1, kind: Service, metadata: { name: .. } }
";
    let (sweep, cluster) = sweep(manifest, json!({})).await;
    assert_eq!((sweep.done, sweep.failed), (6, 0));
    assert_eq!(cluster.made(), Vec::<String>::new());
}

/// A release with one pre-delete hook, and its run.
fn hooked(manifest: &str, kind: &str, uid: &Value) -> Cluster {
    let hook = json!({
        "name": "backup", "kind": kind, "events": ["pre-delete"], "manifest": manifest,
        "delete_policies": ["before-hook-creation", "hook-succeeded"],
    });
    let mut cluster = Cluster::new(json!({ "hooks": [hook] }), json!({}));
    cluster.progress["hook"] = json!({ "kind": kind, "name": "backup", "uid": uid, "startedAt": "2026-01-01T01:59:00.000000Z" });
    cluster
}

const JOB: &str =
    "{ apiVersion: batch/v1, kind: Job, metadata: { name: backup }, spec: { password: hunter2 } }";
const JOBS: &str = "/apis/batch/v1/namespaces/demo/jobs";
const RUN: &str = "own/2026-01-01T01:59:00Z";

async fn seen(cluster: &Cluster, action: HelmAction) -> SeenHook {
    match cluster.act(&action).await {
        HelmOutcome::Seen(seen) => seen,
        HelmOutcome::Trouble(trouble) => panic!("{trouble}"),
        _ => panic!("it saw nothing"),
    }
}

#[tokio::test]
async fn the_object_of_a_hook_says_which_run_it_is() {
    let cluster = hooked(JOB, "Job", &Value::Null);
    let created = seen(&cluster, HelmAction::CreateHook).await;
    assert_eq!(
        created,
        SeenHook::Running {
            uid: "new".to_owned()
        }
    );
    let body = cluster.body("POST");
    assert_eq!(
        body["metadata"]["annotations"]["cleaner.vtex.dev/hook-run"],
        RUN
    );
    assert_eq!(body["spec"]["password"], "hunter2");
}

/// Else it would be gone before anybody looks, and a hook without a result has failed.
#[tokio::test]
async fn a_job_stays_until_its_result_is_seen() {
    for (ttl, expected) in [
        (json!(0), json!(300)),
        (json!(900), json!(900)),
        (Value::Null, Value::Null),
    ] {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "backup" }, "spec": { "ttlSecondsAfterFinished": ttl },
        });
        let cluster = hooked(&job.to_string(), "Job", &Value::Null);
        seen(&cluster, HelmAction::CreateHook).await;
        let body = cluster.body("POST");
        assert_eq!(body["spec"]["ttlSecondsAfterFinished"], expected);
    }
}

/// The policy of a hook would delete what has its name.
#[tokio::test]
async fn a_protected_object_with_the_name_of_a_hook_fails_the_hook() {
    let mut cluster = hooked(JOB, "Job", &Value::Null);
    let protected = json!({ "annotations": { "cleaner.vtex.dev/protect": "true" } });
    cluster.objects = json!({ format!("{JOBS}/backup"): object(&protected) });
    let seen = seen(&cluster, HelmAction::LookAtHook).await;
    check_seen(
        &seen,
        "Failed { uid: None, message: \"the annotation cleaner.vtex.dev/protect protects",
    );
}

#[tokio::test]
async fn what_is_said_of_a_hook_quotes_nothing_of_it() {
    let mut cluster = hooked(JOB, "Job", &Value::Null);
    cluster.objects = json!({ JOBS: QUOTED });
    let SeenHook::Failed { uid: None, message } = seen(&cluster, HelmAction::CreateHook).await
    else {
        panic!("it failed");
    };
    assert!(!message.contains("hunter2"), "{message}");
}

#[tokio::test]
async fn a_hook_in_no_namespace_is_never_created() {
    let role = "{ apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: { name: backup } }";
    let cluster = hooked(role, "ClusterRole", &Value::Null);
    for action in [HelmAction::LookAtHook, HelmAction::CreateHook] {
        let seen = seen(&cluster, action).await;
        let message = "its object would be in no namespace".to_owned();
        assert_eq!(seen, SeenHook::Failed { uid: None, message });
    }
    assert_eq!(cluster.made(), Vec::<String>::new());
}

#[track_caller]
fn check_seen(found: &SeenHook, expected: &str) {
    let found = format!("{found:?}");
    assert!(found.starts_with(expected), "{found}");
}

#[tokio::test]
async fn a_hook_is_known_by_its_run_and_then_by_its_uid_too() {
    let at = format!("{JOBS}/backup");
    let run = |run: &str| json!({ "annotations": { "cleaner.vtex.dev/hook-run": run } });
    let status =
        |type_: &str| json!([{ "type": type_, "status": "True", "reason": "R", "message": "M" }]);
    for (uid, metadata, conditions, expected) in [
        (Value::Null, json!({}), json!([]), "Other"),
        (
            Value::Null,
            run("own/2026-01-01T01:00:00Z"),
            json!([]),
            "Other",
        ),
        (Value::Null, run(RUN), json!([]), "Running"),
        (json!("other"), run(RUN), json!([]), "Other"),
        // Whoever may write the status could have written its UID there.
        (json!("uid"), json!({}), json!([]), "Other"),
        (json!("uid"), run(RUN), json!([]), "Running"),
        (
            json!("uid"),
            run(RUN),
            status("SuccessCriteriaMet"),
            "Running",
        ),
        (json!("uid"), run(RUN), status("Complete"), "Succeeded"),
        (
            json!("uid"),
            run(RUN),
            status("Failed"),
            "Failed { uid: Some(\"uid\"), message: \"R: M\" }",
        ),
    ] {
        let mut cluster = hooked(JOB, "Job", &uid);
        let mut job = object(&metadata);
        job["status"] = json!({ "conditions": conditions });
        cluster.objects = json!({ at.as_str(): job });
        check_seen(&seen(&cluster, HelmAction::LookAtHook).await, expected);
    }
}

#[tokio::test]
async fn of_hooks_that_have_succeeded_only_our_own_objects_are_deleted() {
    let at = format!("{JOBS}/backup");
    for (run, expected) in [(RUN, 1), ("another/2026-01-01T01:59:00Z", 0), ("", 0)] {
        let mut cluster = hooked(JOB, "Job", &Value::Null);
        let annotations = json!({ "annotations": { "cleaner.vtex.dev/hook-run": run } });
        cluster.objects = json!({ at.as_str(): object(&annotations) });
        let outcome = cluster.act(&HelmAction::TidyHooks).await;
        assert!(matches!(outcome, HelmOutcome::Tidied(None)));
        let made = cluster.made();
        let deleted = made.iter().filter(|it| it.starts_with("DELETE"));
        assert_eq!(deleted.count(), expected, "{run}");
    }
}

#[tokio::test]
async fn the_record_is_marked_as_it_was_read() {
    let path = "/api/v1/namespaces/demo/secrets/sh.helm.release.v1.shop.v3";
    let cluster = Cluster::new(json!({}), json!({ path: object(&json!({})) }));
    let outcome = cluster.act(&HelmAction::Mark).await;
    assert!(matches!(outcome, HelmOutcome::Marked));
    let body = cluster.body("PATCH");
    let labels = json!({ "status": "uninstalling", "modifiedAt": "1767232800" });
    let metadata = json!({ "uid": "record", "resourceVersion": "7", "labels": labels });
    assert_eq!(body["metadata"], metadata);
    let payload = STANDARD
        .decode(body["data"]["release"].as_str().unwrap())
        .unwrap();
    let record = Record {
        release: "shop",
        namespace: "demo",
        revision: 3,
    };
    let marked = Chart::read(&payload, record, String::new()).unwrap();
    assert_eq!(marked.status(), podloom_helm::Status::Uninstalling);
}

#[tokio::test]
async fn only_secrets_with_the_name_of_a_record_are_records() {
    let secret = |name: &str| json!({ "metadata": { "name": name, "uid": name } });
    let names = [
        "sh.helm.release.v1.shop.v10",
        "sh.helm.release.v1.shop.v9",
        "sh.helm.release.v1.shop.v09",
        "sh.helm.release.v1.other.v11",
        "sh.helm.release.v1.shop.vx",
        "mine",
    ];
    let items: Vec<Value> = names.into_iter().map(secret).collect();
    let list = json!({ "metadata": {}, "items": items });
    let cluster = Cluster::new(
        json!({}),
        json!({ "/api/v1/namespaces/demo/secrets": list }),
    );
    let HelmOutcome::Listed(records) = cluster.act(&HelmAction::List).await else {
        panic!("it listed them");
    };
    let revisions: Vec<i64> = records.iter().map(|it| it.revision).collect();
    assert_eq!(revisions, [9, 10]);
}
