use podloom_mutation::PodRequest;
use serde_json::{Value, json};

use super::Submission;
use crate::cli::SubmitArguments;
use crate::feed::FoundPod;
use crate::manifest::workload;
use crate::render::Namespaces;
use crate::render::pod::{Subject, subject_of};

/// What is sent for an object of this kind, whose template has a container with this and these volumes.
fn sent(kind: &str, arguments: &SubmitArguments) -> Submission {
    let pod = json!({
        "metadata": { "name": "ignored", "labels": { "app": "web" } },
        "spec": {
            "containers": [{
                "name": "a", "image": "b", "env": [{ "name": "KEY", "value": "hunter2" }],
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }, { "name": "tmp", "mountPath": "/tmp" }],
            }],
            "volumes": [{ "name": "tmp", "emptyDir": {} }],
        },
    });
    let (version, spec) = match kind {
        "CronJob" => (
            "batch/v1",
            json!({ "jobTemplate": { "spec": { "template": pod } } }),
        ),
        "Job" => ("batch/v1", json!({ "template": pod })),
        "ReplicationController" => ("v1", json!({ "template": pod })),
        _ => ("apps/v1", json!({ "template": pod })),
    };
    let object =
        json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "web" }, "spec": spec });
    let template = workload(version, kind, &object);
    let namespaces = Namespaces::default();
    let subject = subject_of(&object, template.as_ref(), &namespaces, "shop");
    of(subject, arguments)
}

fn of(subject: Subject, arguments: &SubmitArguments) -> Submission {
    let found = FoundPod {
        namespace: "shop".to_owned(),
        name: "a pod".to_owned(),
        place: None,
        subject,
    };
    Submission::of(found, arguments)
}

/// The kind of a template; of its pods the name or how it begins, the owner, a label that is added, and the account.
const CREATED: [[&str; 5]; 7] = [
    [
        "Deployment",
        "web-dry-run-",
        "ReplicaSet web-dry-run",
        "pod-template-hash",
        "replicaset",
    ],
    ["ReplicaSet", "web-", "ReplicaSet web", "app", "replicaset"],
    [
        "DaemonSet",
        "web-",
        "DaemonSet web",
        "pod-template-generation",
        "daemon-set",
    ],
    ["Job", "web-", "Job web", "job-name", "job"],
    [
        "CronJob",
        "web-dry-run-",
        "Job web-dry-run",
        "batch.kubernetes.io/job-name",
        "job",
    ],
    [
        "ReplicationController",
        "web-",
        "ReplicationController web",
        "app",
        "replication",
    ],
    [
        "StatefulSet",
        "web-99999",
        "StatefulSet web",
        "apps.kubernetes.io/pod-index",
        "statefulset",
    ],
];

#[test]
fn a_pod_looks_as_if_its_controller_had_made_it() {
    let arguments = SubmitArguments {
        as_controllers: true,
        ..SubmitArguments::default()
    };
    for [kind, name, owner, label, account] in CREATED {
        let Submission { user, pod, .. } = sent(kind, &arguments);
        let metadata = &pod["metadata"];
        let (named, other) = match kind {
            "StatefulSet" => ("name", "generateName"),
            _ => ("generateName", "name"),
        };
        assert_eq!(
            (&metadata[named], &metadata[other]),
            (&json!(name), &Value::Null),
            "{pod}"
        );
        let reference = &metadata["ownerReferences"][0];
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        assert_eq!(format!("{} {}", text("kind"), text("name")), owner);
        let labels = metadata["labels"].as_object().unwrap();
        assert!(
            labels.contains_key(label) && labels.contains_key("app"),
            "{pod}"
        );
        let user = user.unwrap();
        assert_eq!(
            user,
            format!("system:serviceaccount:kube-system:{account}-controller")
        );
        let claims = pod.pointer("/spec/volumes/1/persistentVolumeClaim/claimName");
        let expected = (kind == "StatefulSet").then(|| json!("data-web-99999"));
        assert_eq!(claims, expected.as_ref(), "{pod}");
    }
}

#[test]
fn a_pod_of_nobody_gets_a_name_that_is_not_there() {
    let pod = json!({
        "metadata": { "name": "debug", "namespace": "shop", "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "hunter2" } },
        "spec": { "ephemeralContainers": [{ "name": "e" }], "containers": [] },
    });
    let arguments = SubmitArguments {
        into: Some("trial".to_owned()),
        user: Some("me".to_owned()),
        as_controllers: true,
        ..SubmitArguments::default()
    };
    let send = |name: &str, pod: &Value| {
        let request = PodRequest {
            name: name.to_owned(),
            owner: "Pod/shop/debug".to_owned(),
            ..PodRequest::default()
        };
        let pod = pod.clone();
        of(Subject { pod, request }, &arguments)
    };
    let sent = send("debug", &pod);
    assert_eq!(
        (sent.namespace.as_str(), sent.user.as_deref()),
        ("trial", Some("me"))
    );
    let expected = json!({ "metadata": { "name": "debug-dry-run" }, "spec": { "containers": [] } });
    assert_eq!(sent.pod, expected);
    let long = send(&format!("{}.b", "a".repeat(244)), &pod);
    let name = format!("{}-dry-run", "a".repeat(244));
    assert_eq!(long.pod["metadata"]["name"], name);
    let generated = json!({ "metadata": { "generateName": "own-" }, "spec": {} });
    assert_eq!(send("", &generated).pod, generated);
}

#[test]
fn values_are_sent_only_if_they_are_kept() {
    let value = |keep_values| {
        let arguments = SubmitArguments {
            keep_values,
            ..SubmitArguments::default()
        };
        let Submission { user, pod, .. } = sent("Deployment", &arguments);
        assert_eq!(user, None);
        pod["spec"]["containers"][0]["env"][0]["value"].clone()
    };
    assert_eq!([value(false), value(true)], ["value-1", "hunter2"]);
}
