//! How much each plugin has to do for pods with many containers: in proportion to their number. Instructions are counted, not time.

use std::sync::{Arc, OnceLock};

use podloom_mutation::PodRejection;
use podloom_mutators::{Bundle, Chain, Engine, EngineOptions};
use serde_json::{Value, json};

use super::{bundle, directory, labels, request, sidecar};

fn counting_engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let options = EngineOptions {
            counts_fuel: true,
            ..EngineOptions::default()
        };
        Engine::new(&options).unwrap()
    })
}

/// A pod in which each container needs everything that a plugin does for one.
fn pod_of(containers: usize) -> Value {
    let containers: Vec<Value> = (0..containers)
        .map(|number| {
            json!({
                "name": format!("c{number}-with-a-long-name"),
                "image": "example.com/app:latest",
                "ports": [{ "containerPort": 8080 }],
                "env": [{ "name": "PROXY", "value": "own" }],
            })
        })
        .collect();
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "many" }, "spec": { "containers": containers } })
}

/// The instructions of a plugin for a pod of so many containers, in the first and in the second pass.
fn fuel(chain: &Chain, containers: usize) -> [u64; 2] {
    let first = chain.mutate(pod_of(containers), request()).unwrap();
    let second = chain.mutate(first.pod, request()).unwrap();
    [&first.runs, &second.runs].map(|runs| {
        assert_eq!(runs[0].refused_writes, 0);
        runs[0].fuel.unwrap()
    })
}

#[track_caller]
fn check_linear(plugin: Value) {
    let Some(bundle) = bundle() else { return };
    let name = plugin["name"].clone();
    let directory = directory(&bundle, &[plugin]);
    let bundle = Bundle::read(directory.path()).unwrap();
    let chain = Chain::load(counting_engine(), &bundle).unwrap();
    let (few, many) = (fuel(&chain, 200), fuel(&chain, 800));
    for (pass, (few, many)) in few.into_iter().zip(many).enumerate() {
        assert!(
            many <= 5 * few,
            "{name}, pass {pass}: {few} instructions for 200 containers, {many} for 800"
        );
    }
}

#[test]
fn sidecar_is_linear_in_containers() {
    let mut sidecar = sidecar();
    sidecar["limits"] = json!({ "timeout": "10s" });
    sidecar["allow"] = json!(["/spec", "/metadata/annotations"]);
    sidecar["config"]["containers"][0]["container"]["ports"] = json!([{ "containerPort": 9901 }]);
    sidecar["config"]["volumes"] = json!([{ "name": "socket" }]);
    sidecar["config"]["addToContainers"] = json!({
        "env": [{ "name": "PROXY", "value": "127.0.0.1:9901" }, { "name": "OTHER", "value": "1" }],
        "volumeMounts": [{ "name": "socket", "mountPath": "/run/socket" }],
    });
    check_linear(sidecar);
}

#[test]
fn hardening_is_linear_in_containers() {
    for mode in ["warn", "mutate", "enforce"] {
        check_linear(json!({
            "name": "hardening",
            "file": "hardening.wasm.gz",
            "allow": ["/spec", "/metadata/annotations"],
            "limits": { "timeout": "10s" },
            "config": {
                "mode": mode,
                "runAsUser": 1000,
                "readOnlyRootFilesystem": {},
                "exemptions": [{ "reason": "none has it", "containers": ["*x", "*y"] }],
                "report": ["resources", "latestTag", "digest", "pullPolicy", "rootGroup"],
            },
        }));
    }
}

#[test]
fn labels_is_linear_in_containers() {
    let mut labels = labels();
    labels["config"]["annotations"][0]["value"] = json!("$(pod/spec/containers/0/image)");
    check_linear(labels);
}

#[test]
fn script_is_linear_in_containers() {
    check_linear(json!({
        "name": "script",
        "file": "script.wasm.gz",
        "allow": ["/spec/containers"],
        "limits": { "timeout": "10s" },
        "config": { "program": r#"
            for c in pod.view("/spec/containers", ["/*/name", "/*/image"]) {
                if c.image.ends_with(":latest") { note(`${c.name} has no fixed version`); }
                pod.set(path("/spec/containers", "name", c.name) + "/tty", true);
            }
        "# },
    }));
}

#[test]
fn a_pod_with_more_containers_than_any_node_runs_is_refused_before_a_plugin_runs() {
    let Some(bundle) = bundle() else { return };
    let chain = super::load(&bundle, &[labels()]);
    let mut pod = pod_of(1000);
    assert!(chain.mutate(pod.clone(), request()).is_ok());
    pod["spec"]["initContainers"] = json!([{ "name": "one-more" }]);
    let rejected = chain.mutate(pod, request()).unwrap_err();
    let reason = "the pod has 1001 containers; at most 1000 pass the plugin chain".to_owned();
    assert_eq!(rejected.rejection, PodRejection::Denied(reason));
    assert!(rejected.runs.is_empty());
}
