//! Plugins assembled from text, bundles in temporary directories, and the pod that all tests use.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use podloom_mutation::{MutatedPod, PodRequest, RejectedPod};
use podloom_mutators::{Bundle, Chain, Engine, EngineOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

const FUNCTIONS: [&str; 4] = ["cabi_realloc", "describe", "validate_config", "mutate"];

/// The tests' one engine, as a process has one.
pub(crate) fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&EngineOptions::default()).expect("the engine starts"))
}

fn fixture_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(format!("{name}.wat"))
}

pub(crate) fn fixture_text(name: &str) -> String {
    fs::read_to_string(fixture_path(name)).expect("the fixture is a file")
}

/// Assembles a fixture. A file that is not a whole module is completed by the prelude and the functions it does not define.
pub(crate) fn plugin(name: &str) -> Vec<u8> {
    assemble(&fixture_text(name))
}

/// As [`plugin`], from text.
pub(crate) fn assemble(text: &str) -> Vec<u8> {
    let whole = text
        .lines()
        .any(|line| line.starts_with("(module") || line.starts_with("(component"));
    let text = if whole {
        text.to_owned()
    } else {
        complete(text)
    };
    let wasm = wat::parse_str(&text).expect("the fixture is WebAssembly text");
    if text.contains("(component") {
        wasm
    } else if text.contains("/preparation@") {
        with_metadata(wasm, "prepared-mutator", StringEncoding::UTF8)
    } else {
        with_metadata(wasm, "mutator", StringEncoding::UTF8)
    }
}

pub(crate) fn complete(text: &str) -> String {
    let mut module = format!("(module\n{}\n{text}\n", fixture_text("prelude"));
    for function in FUNCTIONS {
        if !text.contains(&format!("(func ${function} ")) {
            module.push_str(&fixture_text(&format!("default-{function}")));
        }
    }
    module.push(')');
    module
}

/// As [`assemble`], with metadata of this world.
pub(crate) fn in_world(world: &str, text: &str) -> Vec<u8> {
    let module = wat::parse_str(complete(text)).expect("the fixture is WebAssembly text");
    with_metadata(module, world, StringEncoding::UTF8)
}

/// A fixture whose metadata says that its strings are UTF-16, which they are not.
pub(crate) fn in_utf16(name: &str) -> Vec<u8> {
    let text = complete(&fixture_text(name));
    let module = wat::parse_str(&text).expect("the fixture is WebAssembly text");
    with_metadata(module, "mutator", StringEncoding::UTF16)
}

fn with_metadata(mut module: Vec<u8>, world: &str, encoding: StringEncoding) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_path(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../wit/0.1"))
        .expect("the contract");
    let world = resolve
        .select_world(&[package], Some(world))
        .expect("the world");
    wit_component::embed_component_metadata(&mut module, &resolve, world, encoding)
        .expect("metadata");
    module
}

/// As a plugin ships that is no plain core module: the host calls these two in different ways.
pub(crate) fn componentized(wasm: &[u8]) -> Vec<u8> {
    ComponentEncoder::default()
        .validate(true)
        .module(wasm)
        .and_then(ComponentEncoder::encode)
        .expect("a core module that does what its metadata says")
}

/// A plugin directory with these files and this list of plugins.
pub(crate) fn directory(plugins: &str, files: &[(&str, &[u8])]) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let manifest =
        format!("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:{plugins}\n");
    fs::write(directory.path().join("chain.yaml"), manifest).expect("the manifest");
    for (name, content) in files {
        fs::write(directory.path().join(name), content).expect("the file");
    }
    directory
}

/// Loads a chain; the error is the text that a user would see.
pub(crate) fn load(plugins: &str, files: &[(&str, &[u8])]) -> Result<Chain, String> {
    load_by(engine(), plugins, files)
}

fn load_by(engine: &Arc<Engine>, plugins: &str, files: &[(&str, &[u8])]) -> Result<Chain, String> {
    let directory = directory(plugins, files);
    let bundle = Bundle::read(directory.path()).map_err(|error| error.to_string())?;
    Chain::load(engine, &bundle).map_err(|error| error.to_string())
}

/// A chain of fixtures in this order, each allowed to write labels, with further lines of the manifest for each.
pub(crate) fn chain_of(fixtures: &[(&str, &str)]) -> Chain {
    chain_by(engine(), fixtures)
}

/// As [`chain_of`], by another engine.
pub(crate) fn chain_by(engine: &Arc<Engine>, fixtures: &[(&str, &str)]) -> Chain {
    chain_of_each(engine, fixtures, plugin)
}

/// As [`chain_of`], with each plugin as a finished component.
pub(crate) fn chain_of_components(fixtures: &[(&str, &str)]) -> Chain {
    chain_of_each(engine(), fixtures, |name| componentized(&plugin(name)))
}

fn chain_of_each(
    engine: &Arc<Engine>,
    fixtures: &[(&str, &str)],
    plugin: impl Fn(&str) -> Vec<u8>,
) -> Chain {
    let mut plugins = String::new();
    let mut files = Vec::new();
    for (fixture, lines) in fixtures {
        let allow = if lines.contains("allow:") {
            ""
        } else {
            "\n  allow: [/metadata/labels]"
        };
        plugins.push_str(&format!(
            "\n- name: {fixture}\n  file: {fixture}.wasm{allow}\n  {lines}"
        ));
        files.push((format!("{fixture}.wasm"), plugin(fixture)));
    }
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, content)| (name.as_str(), content.as_slice()))
        .collect();
    load_by(engine, &plugins, &files).expect("the chain loads")
}

pub(crate) fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "pod", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "app", "image": "app:1" }, { "name": "proxy", "image": "proxy:1" }] }
    })
}

pub(crate) fn request() -> PodRequest {
    PodRequest {
        kind: "Pod",
        name: "pod".to_owned(),
        namespace: "team-a".to_owned(),
        wants_patch: true,
        ..PodRequest::default()
    }
}

pub(crate) fn mutate(chain: &Chain) -> Result<MutatedPod, RejectedPod> {
    chain.mutate(pod(), request())
}

/// The patch law: by an implementation of RFC 6902 that is not ours, the patch makes of the pod as it came the pod that the chain
/// made. It leaves managedFields alone, which the chain's pod has not.
#[track_caller]
pub(crate) fn check_patch(before: &Value, mutation: &MutatedPod) {
    let text = mutation.patch.as_deref().expect("a patch of usual length");
    let patch: json_patch::Patch = serde_json::from_str(text).expect("a JSON Patch");
    let named = patch.iter().map(|operation| operation.path().as_str());
    for path in named {
        assert!(!path.starts_with("/metadata/managedFields"), "{text}");
    }
    let mut after = before.clone();
    json_patch::patch(&mut after, &patch).expect(text);
    let managed = |pod: &Value| pod.pointer("/metadata/managedFields").cloned();
    assert_eq!(managed(&after), managed(before), "{text}");
    if let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    assert_eq!(after, mutation.pod, "{before}\n{text}");
}

/// A good plugin still does its work on the same engine: the host is unharmed.
#[track_caller]
pub(crate) fn check_host_is_unharmed() {
    static GOOD: OnceLock<Chain> = OnceLock::new();
    let chain = GOOD.get_or_init(|| chain_of(&[("good", "")]));
    let mutation = mutate(chain).expect("a good plugin works");
    assert_eq!(
        mutation.pod["metadata"]["labels"],
        json!({ "app": "web", "fixture": "good" })
    );
}
