//! The standard plugins as they ship, through the real sandbox.
//!
//! `PODLOOM_BUNDLE` names the bundle that `cargo xtask plugins` leaves; without it these tests are skipped, so that the bare
//! test run needs no Wasm target.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test has no other way to fail; the lint sees only functions marked as tests"
)]

#[path = "standard_plugins/commute.rs"]
mod commute;
#[path = "standard_plugins/linear.rs"]
mod linear;
#[path = "standard_plugins/loading.rs"]
mod loading;
#[path = "standard_plugins/prepared.rs"]
mod prepared;
#[path = "standard_plugins/script.rs"]
mod script;
#[path = "standard_plugins/second_pass.rs"]
mod second_pass;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use podloom_mutation::{MutatedPod, PluginOutcome, PodRequest};
use podloom_mutators::{Bundle, Chain, Engine, EngineOptions};
use serde_json::{Value, json};

/// Those of the default chain.
const PLUGINS: [&str; 3] = ["labels", "sidecar", "hardening"];

/// Returns the bundle, `None` if none is named.
fn bundle() -> Option<PathBuf> {
    let Some(directory) = std::env::var_os("PODLOOM_BUNDLE").map(PathBuf::from) else {
        eprintln!("skipped: PODLOOM_BUNDLE does not name the bundle of `cargo xtask plugins`");
        return None;
    };
    assert!(
        directory.join("chain.yaml").is_file(),
        "{} is no bundle",
        directory.display()
    );
    Some(directory)
}

/// Loads a chain of the bundle's files with these entries.
#[track_caller]
fn load(bundle: &Path, plugins: &[Value]) -> Chain {
    try_load(bundle, plugins).unwrap_or_else(|error| panic!("{error}"))
}

fn try_load(bundle: &Path, plugins: &[Value]) -> Result<Chain, String> {
    let directory = directory(bundle, plugins);
    let bundle = Bundle::read(directory.path()).map_err(|error| error.to_string())?;
    Chain::load(engine(), &bundle).map_err(|error| error.to_string())
}

fn directory(bundle: &Path, plugins: &[Value]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let used = plugins.iter().filter_map(|plugin| plugin["file"].as_str());
    let default = PLUGINS.map(|plugin| format!("{plugin}.wasm.gz"));
    for file in used.chain(default.iter().map(String::as_str)) {
        fs::copy(bundle.join(file), directory.path().join(file)).unwrap();
    }
    let manifest =
        json!({ "apiVersion": "podloom.dev/v1alpha1", "kind": "MutatorChain", "plugins": plugins });
    // JSON is YAML.
    fs::write(directory.path().join("chain.yaml"), manifest.to_string()).unwrap();
    directory
}

fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&EngineOptions::default()).unwrap())
}

fn labels() -> Value {
    json!({
        "name": "labels",
        "file": "labels.wasm.gz",
        "allow": ["/metadata/labels/team", "/metadata/annotations/example.com~1account"],
        "config": {
            "labels": [{ "key": "team", "value": "$(namespace/labels/team)" }],
            "annotations": [{ "key": "example.com/account", "value": "$(pod/spec/serviceAccountName)", "default": "none" }],
        },
    })
}

fn sidecar() -> Value {
    json!({
        "name": "sidecar",
        "file": "sidecar.wasm.gz",
        "allow": [
            "/spec/containers", "/spec/initContainers", "/spec/volumes", "/spec/imagePullSecrets",
            "/metadata/annotations/sidecar.podloom.dev~1injected",
        ],
        "config": {
            "containers": [
                { "container": { "name": "zeta", "image": "registry.example.com/zeta:1.0", "startupProbe": { "tcpSocket": { "port": 9901 } } } },
                { "container": { "name": "alpha", "image": "registry.example.com/alpha:1.0" }, "placement": "classic" },
            ],
            "addToContainers": { "env": [{ "name": "PROXY", "value": "127.0.0.1:9901" }] },
        },
    })
}

fn hardening() -> Value {
    json!({
        "name": "hardening",
        "file": "hardening.wasm.gz",
        "allow": ["/spec"],
        "config": { "profile": "restricted", "automountServiceAccountToken": false },
    })
}

/// A browser's pod, with fields of a Kubernetes that does not exist yet.
fn pod() -> Value {
    let mut pod: Value = serde_json::from_str(include_str!("../benches/pod.json")).unwrap();
    pod["futureField"] = json!({ "b": 1.5, "a": null });
    pod["metadata"]["futureField"] = json!("kept");
    pod["spec"]["futureField"] = json!([{ "kept": true }]);
    pod["spec"]["containers"][1]["futureField"] = json!({ "kept": [1] });
    pod["spec"]["containers"][1]["securityContext"] = json!({ "futureField": "kept" });
    pod
}

fn request() -> PodRequest {
    PodRequest {
        kind: "Browser",
        name: "chrome-143-7f3d1c2e".to_owned(),
        namespace: "team-web".to_owned(),
        namespace_labels: [("team".to_owned(), "web".to_owned())].into(),
        wants_patch: true,
        ..PodRequest::default()
    }
}

#[track_caller]
fn mutate(chain: &Chain, pod: Value) -> MutatedPod {
    let mutation = chain
        .mutate(pod.clone(), request())
        .unwrap_or_else(|rejected| panic!("{rejected}"));
    check_patch(pod, &mutation);
    mutation
}

/// By an implementation of RFC 6902 that is not ours, the patch makes the pod that the chain made.
#[track_caller]
fn check_patch(mut pod: Value, mutation: &MutatedPod) {
    let patch: json_patch::Patch = serde_json::from_str(mutation.patch.as_ref().unwrap()).unwrap();
    json_patch::patch(&mut pod, &patch).unwrap();
    assert_eq!(pod, mutation.pod);
}

fn names<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    let containers = pod["spec"][list]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    containers
        .iter()
        .filter_map(|container| container["name"].as_str())
        .collect()
}

/// Removes the host's own stamp, to compare what plugins did.
fn unstamped(mut pod: Value) -> Value {
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.retain(|key, _| !key.starts_with("podloom.dev/"));
    pod
}

#[test]
fn labels_writes_its_keys_and_nothing_else() {
    let Some(bundle) = bundle() else { return };
    let mutation = mutate(&load(&bundle, &[labels()]), pod());
    let paths: Vec<&str> = mutation.runs[0]
        .writes
        .iter()
        .map(|write| write.path.as_str())
        .collect();
    assert_eq!(
        paths,
        [
            "/metadata/labels/team",
            "/metadata/annotations/example.com~1account"
        ]
    );

    let mut expected = pod();
    expected["metadata"]["labels"]["team"] = json!("web");
    expected["metadata"]["annotations"]["example.com/account"] = json!("none");
    assert_eq!(unstamped(mutation.pod), expected);
}

#[test]
fn sidecar_injects_in_the_order_of_its_configuration() {
    let Some(bundle) = bundle() else { return };
    let pod = mutate(&load(&bundle, &[sidecar()]), pod()).pod;
    assert_eq!(names(&pod, "initContainers"), ["zeta"]);
    assert_eq!(pod["spec"]["initContainers"][0]["restartPolicy"], "Always");
    assert_eq!(
        names(&pod, "containers"),
        ["browser", "seleniferous", "x-server", "alpha"]
    );
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(
        env.last(),
        Some(&json!({ "name": "PROXY", "value": "127.0.0.1:9901" }))
    );
}

#[test]
fn hardening_makes_a_pod_restricted() {
    let Some(bundle) = bundle() else { return };
    let pod = mutate(&load(&bundle, &[hardening()]), pod()).pod;
    assert_eq!(violations(&pod), Vec::<String>::new());
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
}

#[test]
fn hardening_denies_a_pod_that_it_cannot_fix_with_all_reasons() {
    let Some(bundle) = bundle() else { return };
    let mut pod = pod();
    pod["spec"]["hostNetwork"] = json!(true);
    pod["spec"]["volumes"][1] = json!({ "name": "tmp", "hostPath": { "path": "/tmp" } });
    let rejected = load(&bundle, &[hardening()])
        .mutate(pod, request())
        .unwrap_err();
    let reason = rejected.to_string();
    assert!(
        reason.starts_with("plugin hardening denies the pod: ")
            && reason.contains("hostNetwork")
            && reason.contains("hostPath"),
        "{reason}"
    );
}

#[test]
fn a_chain_of_three_has_the_effects_of_all_and_the_injected_containers_are_hardened() {
    let Some(bundle) = bundle() else { return };
    let mutation = mutate(&load(&bundle, &[labels(), sidecar(), hardening()]), pod());
    let ran: Vec<&str> = mutation
        .runs
        .iter()
        .map(|run| run.plugin.as_str())
        .collect();
    assert_eq!(ran, PLUGINS);
    assert!(
        mutation
            .runs
            .iter()
            .all(|run| run.outcome == PluginOutcome::Mutated && run.refused_writes == 0)
    );

    let pod = mutation.pod;
    assert_eq!(pod["metadata"]["labels"]["team"], "web");
    assert_eq!(names(&pod, "initContainers"), ["zeta"]);
    assert_eq!(
        names(&pod, "containers"),
        ["browser", "seleniferous", "x-server", "alpha"]
    );
    assert_eq!(violations(&pod), Vec::<String>::new());
}

#[test]
fn the_order_of_the_manifest_is_the_order_of_the_chain() {
    let Some(bundle) = bundle() else { return };
    // The label shows whether sidecar ran before.
    let mut labels = labels();
    labels["config"]["annotations"][0] = json!({
        "key": "example.com/account",
        "value": "$(pod/spec/initContainers/[name=zeta]/image)",
        "default": "none",
    });
    let seen = |plugins: &[Value]| {
        let pod = mutate(&load(&bundle, plugins), pod()).pod;
        pod["metadata"]["annotations"]["example.com/account"].clone()
    };
    assert_eq!(seen(&[labels.clone(), sidecar()]), "none");
    assert_eq!(seen(&[sidecar(), labels]), "registry.example.com/zeta:1.0");
}

#[test]
fn a_hundred_runs_give_the_same_bytes() {
    let Some(bundle) = bundle() else { return };
    let chain = load(&bundle, &[labels(), sidecar(), hardening()]);
    let first = mutate(&chain, pod()).pod.to_string();
    for _ in 0..100 {
        assert_eq!(mutate(&chain, pod()).pod.to_string(), first);
    }
}

/// The rules of the restricted Pod Security Standard that a Linux pod violates and that a plugin could have fixed.
fn violations(pod: &Value) -> Vec<String> {
    let spec = &pod["spec"];
    let mut violations = Vec::new();
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array().map(Vec::as_slice).unwrap_or_default() {
            let own = &container["securityContext"];
            let inherited = |field: &str| match &own[field] {
                Value::Null => spec["securityContext"][field].clone(),
                value => value.clone(),
            };
            let mut check = |holds: bool, what: &str| {
                if !holds {
                    violations.push(format!("{}: {what}", container["name"]));
                }
            };
            check(
                own["allowPrivilegeEscalation"] == false,
                "allowPrivilegeEscalation",
            );
            check(own["privileged"] != true, "privileged");
            check(
                own["capabilities"]["drop"]
                    .as_array()
                    .is_some_and(|drop| drop.contains(&json!("ALL"))),
                "capabilities",
            );
            check(inherited("runAsNonRoot") == true, "runAsNonRoot");
            check(inherited("runAsUser") != 0, "runAsUser");
            let seccomp = inherited("seccompProfile");
            check(
                seccomp["type"] == "RuntimeDefault" || seccomp["type"] == "Localhost",
                "seccompProfile",
            );
        }
    }
    violations
}
