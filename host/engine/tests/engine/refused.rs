//! Writes that the API server refuses are tried again with the kind's own backoff, whatever wakes the object meanwhile.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::kind::{Lamps, Streets, Variety};
use crate::scene::{Scene, condition, engine, eventually, until};

/// How often the object is tried.
const TRIES: usize = 6;

#[test]
fn a_refused_child_waits_its_backoff_out() {
    engine("refused", check::<Lamps>);
}

#[test]
fn a_refused_child_of_a_kind_with_another_backoff_waits_that_out() {
    engine("refused-in-cluster", check::<Streets>);
}

async fn check<V: Variety>(scene: Scene) {
    deny(&scene).await;
    let name = scene.create::<V>("l", json!({ "front": "red" })).await;
    let lamps = scene.lamps::<V>();
    let lamp = until(&lamps, &name, "says why it is dark", |lamp| {
        condition(lamp, "Ready")["reason"] == "Refused"
    })
    .await;
    let sentence = condition(&lamp, "Ready")["message"].clone();
    assert!(
        sentence.as_str().unwrap().contains("no lamps here"),
        "{sentence}"
    );

    let mut round = 0;
    let tries = eventually("it is tried again", async || {
        // Its own watch wakes it each time.
        round += 1;
        let note = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
        scene.merge::<V>(&name, note).await;
        let tries = scene.requests("patch", "configmaps", &name);
        (tries.len() >= TRIES)
            .then_some(tries.clone())
            .ok_or(format!("{tries:?}"))
    })
    .await;
    assert!(tries.iter().all(|tried| tried.status == 403), "{tries:?}");
    let waits = V::TRAITS.backoff;
    let pauses: Vec<Duration> = tries
        .windows(2)
        .map(|two| {
            two[1]
                .received
                .duration_since(two[0].received)
                .try_into()
                .unwrap()
        })
        .collect();
    let mut wait = waits.first;
    for pause in &pauses {
        assert!(*pause >= wait, "{pauses:?} after {waits:?}");
        wait = (wait * 2).min(waits.longest);
    }
    // Without a longest wait the last one alone would be 16 times the first.
    let shortest = pauses.iter().rev().take(3).min().unwrap();
    assert!(*shortest < waits.first * 8, "{pauses:?} after {waits:?}");
    let resource = format!("{}/status", V::PLURAL);
    let statuses = scene.requests("patch", &resource, &name);
    assert_eq!(statuses.len(), 1, "{statuses:?}");

    allow(&scene).await;
    scene.until_lit::<V>(&name).await;
}

/// Refuses ConfigMaps in the test's namespace, and waits until that holds.
async fn deny(scene: &Scene) {
    let name = &scene.namespace;
    scene.cluster.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name },
            "spec": {
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
                }] },
                // By default a policy calls what it refuses invalid, which is final.
                "validations": [{ "expression": "false", "message": "no lamps here", "reason": "Forbidden" }],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } },
            },
        },
    ] }));
    let asked = serde_json::from_value(json!({ "metadata": { "name": "asked" } })).unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("ConfigMaps are refused", async || {
        let created = scene.children().create(&dry_run, &asked).await;
        created
            .err()
            .map(drop)
            .ok_or_else(|| "one was let in".to_owned())
    })
    .await;
}

async fn allow(scene: &Scene) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(scene.client.clone());
    let now = DeleteParams::default();
    bindings.delete(&scene.namespace, &now).await.unwrap();
}
