//! What plugins compute once from their configuration.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use podloom_mutation::MutatedPod;
use podloom_mutators::{Bundle, Chain};
use serde_json::{Value, json};
use wit_component::ComponentEncoder;

use super::{
    PLUGINS, bundle, directory, hardening, labels, load, mutate, pod, sidecar, try_load, unstamped,
};

/// The same plugins as finished components, which prepare themselves in each call.
fn components(bundle: &Path) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for plugin in PLUGINS {
        let file = format!("{plugin}.wasm.gz");
        let mut module = Vec::new();
        let packed = fs::read(bundle.join(&file)).unwrap();
        flate2::read::GzDecoder::new(&*packed)
            .read_to_end(&mut module)
            .unwrap();
        let component = ComponentEncoder::default()
            .module(&module)
            .and_then(ComponentEncoder::encode)
            .unwrap();
        let packed = fs::File::create(directory.path().join(&file)).unwrap();
        GzEncoder::new(packed, Compression::fast())
            .write_all(&component)
            .unwrap();
    }
    directory
}

#[test]
fn what_was_prepared_once_makes_no_difference_to_a_pod() {
    let Some(bundle) = bundle() else { return };
    let components = components(&bundle);
    let mut sidecar = sidecar();
    sidecar["config"]["volumes"] = json!([{ "name": "tmp", "configMap": { "name": "files" } }]);
    sidecar["config"]["containers"][0]["token"] =
        json!({ "mountPath": "/token", "audience": "mesh" });
    sidecar["config"]["containers"][1]["container"]["volumeMounts"] =
        json!([{ "name": "tmp", "mountPath": "/files" }]);
    let plugins = [labels(), sidecar, hardening()];
    let prepared = mutate(&load(&bundle, &plugins), pod());
    let unprepared = mutate(&load(components.path(), &plugins), pod());
    let writes = |mutation: &MutatedPod| -> Vec<_> {
        let runs = mutation.runs.iter();
        runs.map(|run| (run.writes.clone(), run.notes.clone()))
            .collect()
    };
    assert_eq!(writes(&prepared), writes(&unprepared));
    assert_eq!(unstamped(prepared.pod), unstamped(unprepared.pod));
}

#[test]
fn each_entry_of_one_file_prepares_its_own_configuration() {
    let Some(bundle) = bundle() else { return };
    let entry = |name: &str, key: &str| {
        json!({
            "name": name,
            "file": "labels.wasm.gz",
            "allow": ["/metadata/labels"],
            "config": { "labels": [{ "key": key, "value": name }] },
        })
    };
    let keys = |chain: &Chain| {
        let pod = mutate(chain, pod()).pod;
        ["a", "b", "c"].map(|key| pod["metadata"]["labels"][key].clone())
    };
    let chain = load(&bundle, &[entry("one", "a"), entry("two", "b")]);
    assert_eq!(keys(&chain), [json!("one"), json!("two"), Value::Null]);
    // What was compiled is taken over, what was prepared is not.
    let directory = directory(&bundle, &[entry("one", "c"), entry("two", "a")]);
    let next = Bundle::read(directory.path()).unwrap();
    let chain = Chain::load_after(&chain, &next).unwrap();
    assert!(
        chain
            .plugins()
            .iter()
            .all(|plugin| plugin.compiled_in.is_none())
    );
    assert_eq!(keys(&chain), [json!("two"), Value::Null, json!("one")]);
}

#[test]
fn what_is_prepared_is_not_for_users_to_configure() {
    let Some(bundle) = bundle() else { return };
    for (mut plugin, fields) in [
        (labels(), ["added", "path"].as_slice()),
        (sidecar(), &["prepared", "settled"]),
        (hardening(), &["fields"]),
    ] {
        for field in fields {
            plugin["config"][*field] = json!("x");
            let error = try_load(&bundle, &[plugin.clone()]).unwrap_err();
            assert!(error.contains(field), "{error}");
        }
    }
}
