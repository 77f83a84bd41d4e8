//! A value that a plugin may write to a pod is one that a real API server accepts, and the other way round.

use podloom_pod_path::{Access, Transaction};
use podloom_tests::{Cluster, Scene, blackbox_on};
use serde_json::{Value, json};

use crate::syntax::{create, texts};

/// A pod with every field that has a rule, unless the server checks it against other objects (`serviceAccountName`), never takes it
/// from a client (`overhead`), or against another field of the pod (a mount's `name`).
fn pod() -> Value {
    let selector = json!({ "matchLabels": { "a": "b" }, "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }] });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "values", "labels": { "a": "b" }, "annotations": { "a": "b" } },
        "spec": {
            "automountServiceAccountToken": false,
            "hostname": "a",
            "subdomain": "a",
            "nodeName": "a",
            "nodeSelector": { "a": "b" },
            "hostAliases": [{ "ip": "1.2.3.4", "hostnames": ["a"] }],
            "tolerations": [{ "key": "a", "operator": "Exists" }],
            "readinessGates": [{ "conditionType": "a" }],
            "affinity": {
                "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }],
                } },
                "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                    { "topologyKey": "a", "labelSelector": selector },
                ] },
            },
            "volumes": [
                { "name": "a", "emptyDir": { "sizeLimit": "1Gi" } },
                { "name": "b", "secret": {
                    "secretName": "a", "defaultMode": 1, "items": [{ "key": "a", "path": "a", "mode": 1 }],
                } },
                { "name": "c", "configMap": { "name": "a", "defaultMode": 1 } },
                { "name": "d", "projected": { "defaultMode": 1, "sources": [] } },
                { "name": "e", "downwardAPI": { "defaultMode": 1, "items": [
                    { "path": "a", "mode": 1, "fieldRef": { "fieldPath": "metadata.name" } },
                ] } },
            ],
            "containers": [{
                "name": "app",
                "image": "example.com/app:1",
                "ports": [{ "name": "a", "containerPort": 80, "hostPort": 80 }],
                "resources": { "limits": { "cpu": "1", "memory": "1Gi" } },
                "livenessProbe": { "httpGet": { "port": 80 } },
                "readinessProbe": { "tcpSocket": { "port": 80 } },
                "startupProbe": { "grpc": { "port": 80 } },
                "env": [
                    { "name": "a" },
                    { "name": "b", "valueFrom": { "secretKeyRef": { "name": "a", "key": "a" } } },
                    { "name": "c", "valueFrom": { "configMapKeyRef": { "name": "a", "key": "a" } } },
                    { "name": "d", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1" } } },
                ],
                "envFrom": [{ "prefix": "a", "secretRef": { "name": "a" } }, { "configMapRef": { "name": "a" } }],
            }],
        },
    })
}

/// Fields with a text.
const TEXTS: [&str; 27] = [
    "/spec/hostname",
    "/spec/subdomain",
    "/spec/nodeName",
    "/spec/nodeSelector/a",
    "/spec/hostAliases/0/hostnames/0",
    "/spec/tolerations/0/key",
    "/spec/readinessGates/0/conditionType",
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0/key",
    "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/topologyKey",
    "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchLabels/a",
    "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchExpressions/0/key",
    "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchExpressions/0/values/0",
    "/metadata/labels/a",
    "/metadata/annotations/a",
    "/spec/volumes/0/name",
    "/spec/containers/0/name",
    "/spec/containers/0/image",
    "/spec/containers/0/ports/0/name",
    "/spec/containers/0/livenessProbe/httpGet/port",
    "/spec/containers/0/env/0/name",
    "/spec/containers/0/env/1/valueFrom/secretKeyRef/key",
    "/spec/containers/0/env/1/valueFrom/secretKeyRef/name",
    "/spec/containers/0/env/2/valueFrom/configMapKeyRef/key",
    "/spec/containers/0/env/2/valueFrom/configMapKeyRef/name",
    "/spec/containers/0/envFrom/0/prefix",
    "/spec/containers/0/envFrom/0/secretRef/name",
    "/spec/containers/0/envFrom/1/configMapRef/name",
];

/// Maps whose keys have a rule.
const MAPS: [&str; 4] = [
    "/metadata/labels",
    "/metadata/annotations",
    "/spec/nodeSelector",
    "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchLabels",
];

/// Fields with a number.
const NUMBERS: [&str; 11] = [
    "/spec/containers/0/ports/0/containerPort",
    "/spec/containers/0/ports/0/hostPort",
    "/spec/containers/0/livenessProbe/httpGet/port",
    "/spec/containers/0/readinessProbe/tcpSocket/port",
    "/spec/containers/0/startupProbe/grpc/port",
    "/spec/volumes/1/secret/defaultMode",
    "/spec/volumes/1/secret/items/0/mode",
    "/spec/volumes/2/configMap/defaultMode",
    "/spec/volumes/3/projected/defaultMode",
    "/spec/volumes/4/downwardAPI/defaultMode",
    "/spec/volumes/4/downwardAPI/items/0/mode",
];

/// Fields with a quantity.
const QUANTITIES: [&str; 3] = [
    "/spec/volumes/0/emptyDir/sizeLimit",
    "/spec/containers/0/resources/limits/cpu",
    "/spec/containers/0/resources/limits/memory",
];

/// Texts for names, besides those of the test of names.
const ODD: [&str; 16] = [
    " a",
    "a=b",
    "=",
    "a--b",
    "80",
    "http-80",
    "abcdefghijklmno",
    "abcdefghijklmnop",
    ".",
    "..",
    "..a",
    ".a",
    "~!@#",
    "\u{7f}",
    "\u{212A}",
    "a\u{130}",
];

fn quantities() -> Vec<Value> {
    let texts = [
        "",
        "0",
        "-0",
        "-1",
        "-1n",
        "-1m",
        "1m",
        "0.5",
        ".5",
        "5.",
        "1e3",
        "1E",
        "1Gi",
        "1GB",
        " 1 ",
        "1 Gi",
        "\t1",
        "\u{a0}1",
        "Ki",
        "-Ki",
        "m",
        "+",
        "-",
        ".",
        "x",
        "+1",
        "++1",
        "0x1",
        "1_000",
        "99999999999999999999Ei",
        "-1Gi",
    ];
    let numbers = [
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(-0.5),
        json!(-0.0),
        json!(1e3),
        json!(1e30),
    ];
    texts
        .map(|text| json!(text))
        .into_iter()
        .chain(numbers)
        .collect()
}

/// Writes a value as a plugin does, and asks the server whether it accepts the pod with it.
#[expect(clippy::panic, reason = "any other refusal fails the test")]
async fn both(scene: &Scene, path: &str, value: &Value) -> [bool; 2] {
    let mut writes = Transaction::begin(pod(), Access::unrestricted().into(), [].into());
    let ours = writes.set(path, value.to_string()).is_ok();
    let mut pod = pod();
    *pod.pointer_mut(path).unwrap() = value.clone();
    let pods = format!("/api/v1/namespaces/{}/pods", scene.namespace);
    let theirs = match create(scene, &pods, &pod).await {
        Ok(_) => true,
        Err(refusal) if matches!(refusal.code, 400 | 422) => false,
        Err(refusal) => panic!("{path} {value}: {refusal:?}"),
    };
    [ours, theirs]
}

/// Whether we may accept a value that the server refuses: a text that is missing, since we check only what is there, and a quantity of
/// a suffix without a number, which the server takes for 0 in some spellings.
fn is_lenient(path: &str, value: &Value) -> bool {
    let is_without_digit = |text: &str| !text.contains(|letter: char| letter.is_ascii_digit());
    value
        .as_str()
        .is_some_and(|text| text.is_empty() || QUANTITIES.contains(&path) && is_without_digit(text))
}

fn rows() -> Vec<(&'static str, Value)> {
    let names = || texts().into_iter().chain(ODD.map(str::to_owned));
    let mut rows = Vec::new();
    for path in TEXTS {
        rows.extend(names().map(|text| (path, json!(text))));
    }
    for path in MAPS {
        rows.extend(names().map(|text| (path, json!({ text: "" }))));
    }
    for path in NUMBERS {
        rows.extend([-1, 0, 1, 0o777, 0o1000, 65535, 65536].map(|number| (path, json!(number))));
    }
    for path in QUANTITIES {
        rows.extend(quantities().into_iter().map(|value| (path, value)));
    }
    rows
}

#[test]
fn written_values_are_accepted_as_by_the_api_server() {
    blackbox_on(Cluster::without_operator, "values", async |scene| {
        let mut wrong = Vec::new();
        for (path, value) in rows() {
            match both(&scene, path, &value).await {
                [true, false] if is_lenient(path, &value) => {}
                [ours, theirs] if ours == theirs => {}
                [ours, _] => wrong.push(format!(
                    "{path} {value}: only {} accept it",
                    if ours { "we" } else { "they" }
                )),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
