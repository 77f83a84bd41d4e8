//! The same mutations by a chain of plugins behind the webhook, by MutatingAdmissionPolicies in the API server, and not at all.
//!
//! Each cell has a namespace, an operator or policies, and pods of its own. What the chain makes of a pod must be what the policies
//! make of it, and each mutation must make something else, so no cell measures nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use podloom_tests::webhook::{Route, Webhook, dry_run};
use podloom_tests::{Bundle, Cluster, Scene, eventually};
use serde_json::{Value, json};

use crate::mutations::{By, Cell, cells};
use crate::{Rows, create, pod};

/// How many dry runs in a row must carry the mutation: the API server learns of the policies one after the other.
const SURE: usize = 5;
/// How many pods are created before the first cell, so that caches are full.
const WARM_UP: u32 = 500;

/// The plurals of what is created for policies.
const KINDS: &str = "mutatingadmissionpolicies,mutatingadmissionpolicybindings";

/// Measures all cells with so many pods each, and returns what is to be written as JSON.
pub(crate) async fn measure(pods: u32, concurrency: usize) -> Value {
    let warm_up = Scene::new(Arc::new(Cluster::installed()), "warm-up").await;
    create((WARM_UP, concurrency), &warm_up, None).await;
    let mut made: BTreeMap<String, Value> = BTreeMap::new();
    let mut table = Vec::new();
    let cells = cells();
    let count = cells.len();
    for (number, cell) in cells.into_iter().enumerate() {
        let Cell {
            mutation, by_whom, ..
        } = &cell;
        eprintln!("{} of {count}: {mutation}, {by_whom}", number + 1);
        let scene = warm_up.beside(&format!("cell-{number}"), json!({})).await;
        let (rows, pod) = one((pods, concurrency), &scene, &cell, made.get(mutation)).await;
        let is_new = made.values().all(|other| *other != pod);
        let known = made.insert(mutation.clone(), pod.clone());
        assert!(
            known.as_ref().map_or(is_new, |known| *known == pod),
            "{mutation}, {by_whom}: {pod:#}"
        );
        table.push((cell, rows));
    }
    print(&table);
    let objects = table.iter().map(|(cell, rows)| {
        let mut object = json!({ "mutation": cell.mutation, "by": cell.by_whom });
        for (key, value) in rows {
            object[*key] = json!(value);
        }
        object
    });
    json!({ "pods": pods, "cells": objects.collect::<Vec<_>>() })
}

/// Measures a cell, and returns its figures and one of its pods, which must be as expected.
async fn one(
    load: (u32, usize),
    scene: &Scene,
    cell: &Cell,
    expected: Option<&Value>,
) -> (Rows, Value) {
    let chain = match &cell.by {
        By::Nobody => None,
        By::Chain(entries) => {
            let bundle = Bundle::of(&json!(entries).to_string());
            let webhook = Webhook::new(scene, Route::Url);
            let operator = webhook.operator(bundle.path(), &[]).await;
            Some((operator, webhook, bundle))
        }
        By::Policies(policies) => {
            let list = objects(&scene.namespace, policies);
            scene.cluster.apply_text(&list.to_string());
            None
        }
    };
    if let Some(expected) = expected {
        takes_effect(scene, expected).await;
    }
    let operator = chain.as_ref().map(|(operator, ..)| operator.id());
    let rows = create(load, scene, operator).await;
    let last = scene.pods().get(&format!("pod-{}", load.0 - 1)).await;
    let last = comparable(&last.unwrap());
    // What they leave would cost the next cell something.
    let delete = ["delete", KINDS, "--all", "--ignore-not-found"];
    scene.cluster.kubectl(&delete);
    let at_once = DeleteParams::default().grace_period(0);
    let (pods, all) = (scene.pods(), ListParams::default());
    pods.delete_collection(&at_once, &all).await.unwrap();
    (rows, last)
}

/// The policies and their bindings, for the pods of a namespace.
fn objects(namespace: &str, policies: &[Vec<Value>]) -> Value {
    let group = "admissionregistration.k8s.io/v1";
    let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    let pods = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] });
    let both = policies.iter().enumerate().flat_map(|(number, mutations)| {
        let name = format!("{namespace}-{number}");
        let policy = json!({
            "apiVersion": group, "kind": "MutatingAdmissionPolicy", "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail", "reinvocationPolicy": "Never", "mutations": mutations,
                "matchConstraints": { "resourceRules": [pods], "namespaceSelector": here },
            },
        });
        let binding = json!({
            "apiVersion": group, "kind": "MutatingAdmissionPolicyBinding", "metadata": { "name": name },
            "spec": { "policyName": name },
        });
        [policy, binding]
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": both.collect::<Vec<_>>() })
}

/// Waits until pods carry the mutation.
async fn takes_effect(scene: &Scene, expected: &Value) {
    eventually("pods carry the mutation", async || {
        for _ in 0..SURE {
            let created = scene.pods().create(&dry_run(), &pod(0)).await;
            let created = comparable(&created.map_err(|error| error.to_string())?);
            if created != *expected {
                return Err(format!("{created:#}\nis not\n{expected:#}"));
            }
        }
        Ok(())
    })
    .await;
}

/// What two pods of the same mutation have in common: not their names, nor who changed them, nor the name of the token's volume.
fn comparable(pod: &Pod) -> Value {
    let mut pod = json!(pod);
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let mut names = volumes.filter_map(|volume| volume["name"].as_str());
    let token = names.find(|name| name.starts_with("kube-api-access-"));
    let token = token.unwrap_or("kube-api-access-").to_owned();
    let text = json!([pod["metadata"]["labels"].take(), pod["spec"].take()]).to_string();
    serde_json::from_str(&text.replace(&token, "token")).unwrap()
}

fn print(table: &[(Cell, Rows)]) {
    let keys = [
        "pods_per_second",
        "p50_ms",
        "p99_ms",
        "api_server_cpu_ms_per_pod",
        "operator_cpu_ms_per_pod",
    ];
    let value = |rows: &Rows, key| rows.iter().find(|(name, _)| *name == key).map(|it| it.1);
    eprintln!(
        "\n{:<18} {:<24} {:>7} {:>8} {:>8} {:>14} {:>11} {:>8}",
        "mutation", "by", "pods/s", "p50 ms", "p99 ms", "API server CPU", "webhook CPU", "together"
    );
    for (cell, rows) in table {
        let [speed, p50, p99, api_server, webhook] =
            keys.map(|key| value(rows, key).unwrap_or_default());
        eprintln!(
            "{:<18} {:<24} {speed:>7.0} {p50:>8.1} {p99:>8.1} {api_server:>14.2} {webhook:>11.2} {:>8.2}",
            cell.mutation,
            cell.by_whom,
            api_server + webhook
        );
    }
    let ends =
        [table.first(), table.last()].map(|end| end.and_then(|(_, rows)| value(rows, keys[3])));
    if let [Some(first), Some(last)] = ends {
        let drift = (last / first - 1.0) * 100.0;
        eprintln!("CPU in ms for each pod; nothing costs the API server {drift:+.0} % at the end");
    }
}
