//! Random pods, and objects of every kind that has pods.

use podloom_tests::Seed;
use serde_json::{Value, json};

/// More Deployments than fit on two pages.
pub(super) const MANY: usize = 410;

/// A pod of some of the features that plugins look at.
pub(super) fn random(seed: &mut Seed, number: usize) -> Value {
    let mut labels = json!({ "app": pick(seed, &["web", "api", "db"]) });
    for (key, values) in [
        ("team", &["core", "shop"][..]),
        ("break", &["true"]),
        ("sidecar.podloom.dev/inject", &["true", "false"]),
    ] {
        if seed.below(4) == 0 {
            labels[key] = pick(seed, values);
        }
    }
    let mut metadata = json!({ "name": format!("p{number}"), "labels": labels });
    if seed.below(5) == 0 {
        metadata["annotations"] = json!({ "example.com/a": "b" });
    }
    if seed.below(6) == 0 {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true,
        }]);
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(seed) })
}

fn spec(seed: &mut Seed) -> Value {
    let containers = |seed: &mut Seed, prefix: &str, count: usize| -> Value {
        let containers = (0..count).map(|index| container(seed, &format!("{prefix}{index}")));
        containers.collect()
    };
    let count = 1 + seed.below(3);
    let mut spec = json!({ "containers": containers(seed, "c", count) });
    if seed.below(3) == 0 {
        spec["initContainers"] = containers(seed, "i", 1);
    }
    for (field, values) in [
        (
            "securityContext",
            vec![
                json!({}),
                json!({ "runAsUser": 1000 }),
                json!({ "runAsNonRoot": true, "fsGroup": 7 }),
            ],
        ),
        (
            "tolerations",
            vec![
                json!([{ "operator": "Exists" }]),
                json!([{ "key": "a", "operator": "Exists" }, { "key": "b", "operator": "Exists" }]),
            ],
        ),
        (
            "volumes",
            vec![
                json!([{ "name": "scratch", "emptyDir": {} }]),
                json!([{ "name": "host", "hostPath": { "path": "/" } }]),
            ],
        ),
        (
            "automountServiceAccountToken",
            vec![json!(true), json!(false)],
        ),
    ] {
        if seed.below(3) == 0 {
            spec[field] = values[seed.below(values.len())].clone();
        }
    }
    spec
}

fn pick(seed: &mut Seed, values: &[&str]) -> Value {
    values[seed.below(values.len())].into()
}

fn container(seed: &mut Seed, name: &str) -> Value {
    let mut container = json!({ "name": name, "image": pick(seed, &["example.com/a:1", "example.com/a:latest", "b"]) });
    for (field, values) in [
        (
            "env",
            vec![
                json!([{ "name": "A", "value": "1" }]),
                json!([{ "name": "B", "value": "2" }, { "name": "A", "value": "" }]),
            ],
        ),
        ("args", vec![json!(["--a"]), json!(["--a", "--b"])]),
        (
            "ports",
            vec![
                json!([{ "containerPort": 53 }, { "containerPort": 53, "protocol": "UDP" }]),
                json!([{ "containerPort": 80 }]),
            ],
        ),
        ("resources", vec![json!({ "limits": { "memory": "1Gi" } })]),
        (
            "securityContext",
            vec![
                json!({ "privileged": true }),
                json!({ "runAsUser": 0 }),
                json!({ "capabilities": { "add": ["NET_BIND_SERVICE"] } }),
                json!({ "capabilities": { "drop": ["ALL"] }, "allowPrivilegeEscalation": false }),
            ],
        ),
    ] {
        if seed.below(4) == 0 {
            container[field] = values[seed.below(values.len())].clone();
        }
    }
    container
}

/// One object of each kind, which all have the name `own`; and others that are made of their owners' templates.
pub(super) fn workloads(namespace: &str) -> Value {
    let metadata = |name: &str, kind: &str, owner: Option<&str>| {
        let mut metadata = json!({ "name": name, "namespace": namespace, "labels": { "which": name, "kind": kind } });
        if let Some(owner) = owner {
            let (api, kind) = owner.split_once(' ').unwrap();
            metadata["ownerReferences"] = json!([{ "apiVersion": api, "kind": kind, "name": "own", "uid": "u", "controller": true }]);
        }
        metadata
    };
    let spec = json!({ "restartPolicy": "Always", "containers": [{ "name": "a", "image": "example.com/a:1" }] });
    let mut job_spec = spec.clone();
    job_spec["restartPolicy"] = "Never".into();
    let template = json!({ "metadata": { "labels": { "app": "own" } }, "spec": spec });
    let workload = json!({ "selector": { "matchLabels": { "app": "own" } }, "template": template });
    let job = json!({ "template": { "spec": job_spec } });
    let mut items = Vec::new();
    let mut add = |api: &str, kind: &str, name: &str, (owner, spec): (Option<&str>, &Value)| {
        items.push(json!({ "apiVersion": api, "kind": kind, "metadata": metadata(name, kind, owner), "spec": spec }));
    };
    let mut stateful = workload.clone();
    stateful["serviceName"] = "s".into();
    add("apps/v1", "Deployment", "own", (None, &workload));
    add("apps/v1", "StatefulSet", "own", (None, &stateful));
    add("apps/v1", "DaemonSet", "own", (None, &workload));
    add("apps/v1", "ReplicaSet", "own", (None, &workload));
    add(
        "apps/v1",
        "ReplicaSet",
        "made",
        (Some("apps/v1 Deployment"), &workload),
    );
    let rollout = Some("argoproj.io/v1alpha1 Rollout");
    add("apps/v1", "ReplicaSet", "rolled", (rollout, &workload));
    let controller = json!({ "selector": { "app": "own" }, "template": template });
    add("v1", "ReplicationController", "own", (None, &controller));
    add("batch/v1", "Job", "own", (None, &job));
    add("batch/v1", "Job", "made", (Some("batch/v1 CronJob"), &job));
    add(
        "batch/v1",
        "CronJob",
        "own",
        (
            None,
            &json!({ "schedule": "0 0 * * *", "suspend": true, "jobTemplate": { "spec": job } }),
        ),
    );
    add("v1", "Pod", "own", (None, &spec));
    add("v1", "Pod", "made", (Some("apps/v1 ReplicaSet"), &spec));
    let workflow = Some("argoproj.io/v1alpha1 Workflow");
    add("v1", "Pod", "step", (workflow, &spec));
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// Many Deployments without replicas.
pub(super) fn many_deployments(namespace: &str) -> Value {
    let deployment = |number: usize| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": format!("many-{number}"), "namespace": namespace },
            "spec": {
                "replicas": 0, "selector": { "matchLabels": { "app": "many" } },
                "template": {
                    "metadata": { "labels": { "app": "many" } },
                    "spec": { "containers": [{ "name": "a", "image": "example.com/a:1" }] },
                },
            },
        })
    };
    let items: Vec<Value> = (0..MANY).map(deployment).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}
