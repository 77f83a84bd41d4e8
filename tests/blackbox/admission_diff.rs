//! `podloom admission`: what the API server's own policies do to pods, before and after, for one user and for another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kube::ResourceExt;
use kube::api::ListParams;
use podloom_tests::webhook::{dry_run, plain_pod};
use podloom_tests::{Cluster, Scene, binary, blackbox_on, eventually};
use serde_json::{Value, json};

fn podloom(arguments: &[&str], kubeconfig: &Path) -> Output {
    let mut command = Command::new(binary().unwrap());
    command.arg("admission").args(arguments);
    command.env("KUBECONFIG", kubeconfig).output().unwrap()
}

#[track_caller]
fn report(arguments: &[&str], kubeconfig: &Path) -> Value {
    let json = ["-o", "json", "--qps", "100", "--exit-code"];
    let output = podloom(&[&["diff"], arguments, &json].concat(), kubeconfig);
    let is_compared = [Some(0), Some(4)].contains(&output.status.code());
    assert!(is_compared, "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_same = report["groups"] == json!([]);
    assert_eq!(output.status.code(), Some(if is_same { 0 } else { 4 }));
    report
}

#[track_caller]
fn refused(arguments: &[&str], kubeconfig: &Path, expected: &str) {
    let output = podloom(arguments, kubeconfig);
    let error = String::from_utf8(output.stderr).unwrap();
    let is_so = output.status.code() == Some(3) && error.contains(expected);
    assert!(is_so && error.lines().count() == 1, "{error}");
}

/// A Deployment, a StatefulSet with a claim, and a pod that is there.
fn pods(namespace: &str) -> Value {
    let metadata = |name: &str| json!({ "name": name, "namespace": namespace });
    let workload = |kind: &str, name: &str, mounts: Value| {
        let labels = json!({ "app": name });
        let container = json!({
            "name": name, "image": "example.com/a:1", "volumeMounts": mounts, "env": [{ "name": "KEY", "value": "hunter2" }],
        });
        json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": metadata(name), "spec": {
            "replicas": 0, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        } })
    };
    let mut db = workload(
        "StatefulSet",
        "db",
        json!([{ "name": "data", "mountPath": "/data" }]),
    );
    let claim = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    db["spec"]["serviceName"] = json!("db");
    db["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": claim }]);
    let debug = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata("debug"),
        "spec": { "containers": [{ "name": "a", "image": "example.com/a:1" }] } });
    let items = json!([workload("Deployment", "web", json!([])), db, debug]);
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// Policies for the pods of the namespace: all get a label, those of db are denied, and those of web to one user; others are warned of
/// them.
fn policies(namespace: &str, user: &str) -> Value {
    let constraints = json!({
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
        "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
    });
    let both = |kind: &str, name: &str, spec: Value, binding: Value| {
        let metadata = json!({ "name": format!("{namespace}-{name}") });
        let mut objects = [("", spec), ("Binding", binding)].map(|(end, spec)| {
            json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}{end}"), "metadata": metadata, "spec": spec })
        });
        objects[0]["spec"]["matchConstraints"] = constraints.clone();
        objects[1]["spec"]["policyName"] = metadata["name"].clone();
        objects
    };
    let label = "Object{metadata: Object.metadata{labels: {'team': 'core'}}}";
    let apply = json!([{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": label } }]);
    let apply = json!({ "mutations": apply, "reinvocationPolicy": "Never" });
    let validate = |name: &str, expression: &str, action: &str| {
        let spec = json!({ "validations": [{ "expression": expression, "message": "not here" }] });
        let actions = json!({ "validationActions": [action] });
        both("ValidatingAdmissionPolicy", name, spec, actions)
    };
    let is = |app: &str| format!("object.metadata.?labels.app.orValue('') == '{app}'");
    let web = format!("!({} && request.userInfo.username == '{user}')", is("web"));
    let objects = [
        both("MutatingAdmissionPolicy", "label", apply, json!({})),
        validate("db", &format!("!({})", is("db")), "Deny"),
        validate("web", &web, "Deny"),
        validate("warn", &format!("!({})", is("web")), "Warn"),
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": objects.concat() })
}

/// Waits until the API server knows all policies: it learns of one after the other.
async fn take_effect(scene: &Scene, user: &str) {
    let mut probe = plain_pod("probe");
    probe.metadata.labels = Some([("app".to_owned(), "db".to_owned())].into());
    eventually("the policies count", async || {
        let denied = scene.pods().create(&dry_run(), &probe).await.is_err();
        let labelled = scene.pods().create(&dry_run(), &plain_pod("probe")).await;
        let labelled =
            labelled.is_ok_and(|it| it.metadata.labels.is_some_and(|it| it.contains_key("team")));
        let web = [
            "run",
            "probe",
            "--image=a",
            "--labels=app=web",
            "--dry-run=server",
        ];
        let web = [&web[..], &["-n", &scene.namespace]].concat();
        let warned = scene.cluster.ask_kubectl(&web).error;
        let refused = scene
            .cluster
            .ask_kubectl(&[&web[..], &["--as", user]].concat())
            .error;
        let is_so =
            denied && labelled && refused.contains("not here") && warned.contains("Warning");
        is_so
            .then_some(())
            .ok_or(format!("{denied} {labelled} {refused} {warned}"))
    })
    .await;
}

/// A kubeconfig with a context for each of these.
fn contexts(directory: &Path, kubeconfigs: [(&str, &Path); 3]) -> PathBuf {
    let mut all = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "admin", "users": [], "contexts": [] });
    for (name, path) in kubeconfigs {
        let text = fs::read_to_string(path).unwrap();
        let mut one: Value = serde_saphyr::from_str(&text).unwrap();
        one["users"][0]["name"] = json!(name);
        let context = json!({ "cluster": one["clusters"][0]["name"], "user": name });
        let pairs = [
            ("users", one["users"][0].take()),
            ("contexts", json!({ "name": name, "context": context })),
        ];
        for (list, item) in pairs {
            all[list].as_array_mut().unwrap().push(item);
        }
        all["clusters"] = one["clusters"].take();
    }
    let path = directory.join("kubeconfig");
    fs::write(&path, all.to_string()).unwrap();
    path
}

/// The verdict, the names and the paths of each group.
fn groups(report: &Value) -> Vec<(&str, Vec<&str>, Vec<&str>)> {
    let groups = report["groups"].as_array().unwrap().iter();
    let told = groups.map(|group| {
        let names = group["names"].as_array().unwrap().iter();
        let changes = group["changes"].as_array().unwrap().iter();
        (
            group["verdict"].as_str().unwrap(),
            names.map(|it| it.as_str().unwrap()).collect(),
            changes.map(|it| it["path"].as_str().unwrap()).collect(),
        )
    });
    told.collect()
}

/// Where the test's files are.
struct Place<'a> {
    namespace: &'a str,
    recording: &'a str,
    kubeconfig: &'a Path,
}

impl Place<'_> {
    fn of_cluster(&self) -> [&str; 4] {
        ["--against", "cluster", "-n", self.namespace]
    }

    /// Records the pods of the cluster, and returns what is printed.
    #[track_caller]
    fn record(&self, more: &[&str]) -> String {
        let record = ["record", self.recording, "--qps", "100"];
        let record = [&record[..], &self.of_cluster(), more].concat();
        let output = podloom(&record, self.kubeconfig);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn name(&self, kind: &str, name: &str) -> String {
        format!("{kind} {}/{name}", self.namespace)
    }
}

#[test]
fn what_policies_do_to_pods_is_told_before_they_do_it() {
    let cluster = Cluster::without_operator;
    blackbox_on(cluster, "admission-diff", async |scene| {
        let namespace = scene.namespace.as_str();
        scene.cluster.apply_text(&pods(namespace).to_string());
        let create = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["create"] }]);
        let maker = scene.account("maker", &create);
        let guest = scene.account("guest", &json!([]));
        let directory = tempfile::tempdir().unwrap();
        let admin = scene.cluster.plane.kubeconfig();
        let all = [
            ("admin", admin.as_path()),
            ("maker", &maker),
            ("guest", &guest),
        ];
        let kubeconfig = contexts(directory.path(), all);
        let recording = directory.path().join("before.jsonl");
        let place = Place {
            namespace,
            recording: recording.to_str().unwrap(),
            kubeconfig: &kubeconfig,
        };
        recorded(&place);
        let user = format!("system:serviceaccount:{namespace}:{namespace}-maker");
        let policies = policies(namespace, &user);
        scene.cluster.apply_text(&policies.to_string());
        take_effect(&scene, &user).await;
        check_after(&place);
        check_refused(&place);
        check_users(&place, &user);

        let there = scene.pods().list(&ListParams::default()).await.unwrap();
        let there: Vec<String> = there.iter().map(ResourceExt::name_any).collect();
        assert_eq!(there, ["debug"]);
        for policy in policies["items"].as_array().unwrap() {
            let [kind, name] =
                [&policy["kind"], &policy["metadata"]["name"]].map(|it| it.as_str().unwrap());
            scene.cluster.kubectl(&["delete", kind, name]);
        }
    });
}

/// Records the answers before there are policies.
fn recorded(place: &Place<'_>) {
    let said = place.record(&["--as-controllers"]);
    let expected = format!(
        "3 answers in {}: 3 accepted, 0 denied, 0 rejected by a failure\n",
        place.recording
    );
    assert_eq!(said, expected);
    let before = fs::read_to_string(place.recording).unwrap();
    let account = "system:serviceaccount:kube-system:replicaset-controller";
    assert!(
        before.contains(account) && !before.contains("hunter2"),
        "{before}"
    );
    place.record(&["--as-controllers"]);
    assert_eq!(fs::read_to_string(place.recording).unwrap(), before);
    let report = report(
        &["--recording", place.recording, "--as-recorded"],
        place.kubeconfig,
    );
    assert_eq!(groups(&report), []);
}

/// What is different now.
fn check_after(place: &Place<'_>) {
    let [web, db, debug] = [
        ("Deployment", "web"),
        ("StatefulSet", "db"),
        ("Pod", "debug"),
    ]
    .map(|(kind, name)| place.name(kind, name));
    let recorded = ["--recording", place.recording, "--as-recorded"];
    let after = report(&recorded, place.kubeconfig);
    let labelled = (
        "Changed",
        vec![web.as_str(), &debug],
        vec!["/metadata/labels/team"],
    );
    assert_eq!(
        groups(&after),
        [("DeniedNow", vec![db.as_str()], vec![]), labelled]
    );
    let denied = &after["groups"][0];
    let policy = format!("ValidatingAdmissionPolicy {}-db", place.namespace);
    assert_eq!(denied["plugins"], json!([policy]));
    let reason = denied["reasons"][0].as_str().unwrap();
    assert!(reason.ends_with("denied request: not here"), "{reason}");
    let ignore = [&recorded[..], &["--ignore", "/metadata/labels"]].concat();
    let ignored = report(&ignore, place.kubeconfig);
    let warned = ("WarnedOtherwise", vec![web.as_str()], vec![]);
    assert_eq!(
        groups(&ignored),
        [("DeniedNow", vec![db.as_str()], vec![]), warned]
    );
    let warning = ignored["groups"][1]["reasons"][0].as_str().unwrap();
    let is_so = warning.starts_with("warned now: ") && warning.ends_with("not here");
    assert!(is_so, "{warning}");
    let markdown = podloom(
        &[&["diff", "-o", "markdown"], &ignore[..]].concat(),
        place.kubeconfig,
    );
    let title = format!(
        "### What changes at admission\n\n**Denied now: 1 pod in 1 namespace** ({policy})\n"
    );
    let markdown = String::from_utf8(markdown.stdout).unwrap();
    assert!(markdown.starts_with(&title), "{markdown}");
}

/// What cannot be asked.
fn check_refused(place: &Place<'_>) {
    let diff = |more: &[&str], expected: &str| {
        let diff = [&["diff"], &place.of_cluster()[..], more].concat();
        refused(&diff, place.kubeconfig, expected);
    };
    let nowhere = ["--to-context", "maker", "--into", "nowhere"];
    diff(
        &nowhere,
        ": there is no namespace nowhere: create it, or name another one for all pods with --into",
    );
    let guest = ["--to-context", "guest"];
    diff(&guest, "error: the API server of context guest: ");
    diff(
        &guest,
        ": a dry run needs the same rights as creating the pod: pods is forbidden",
    );
    diff(
        &["--to-context", "other"],
        "error: the kubeconfig has no context other; it has: admin, maker, guest",
    );
    // It was recorded as the controllers.
    let now = ["diff", "--recording", place.recording, "--context", "maker"];
    let output = podloom(&now, place.kubeconfig);
    let error = String::from_utf8(output.stderr).unwrap();
    let which = "give --as-recorded to send them so again";
    assert!(
        output.status.code() == Some(1) && error.contains(which),
        "{error}"
    );
    refused(
        &[&now[..], &["--as-recorded"]].concat(),
        place.kubeconfig,
        "you may not send it as system:serviceaccount:kube-system:",
    );
}

/// One API server may answer two users differently. The pods are read by the first one.
fn check_users(place: &Place<'_>, user: &str) {
    let two = ["--context", "admin", "--to-context", "maker"];
    let differs = report(&[&place.of_cluster()[..], &two].concat(), place.kubeconfig);
    let web = place.name("Deployment", "web");
    assert_eq!(
        groups(&differs),
        [("DeniedNow", vec![web.as_str()], vec![])]
    );
    let said = place.record(&["--as", user]);
    assert!(said.contains(": 1 accepted, 2 denied, "), "{said}");
}
