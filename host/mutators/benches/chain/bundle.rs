//! Chains of some of a bundle's plugins.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the directory that `cargo xtask plugins` has left.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("PODLOOM_BUNDLE") {
        Some(directory) => directory.into(),
        None => crate::bundle::target_directory().join("plugins"),
    }
}

/// Returns cargo's target directory: a benchmark is deep in it, and cargo leaves this file at its top.
pub(crate) fn target_directory() -> PathBuf {
    let program = std::env::current_exe().expect("a running program has a path");
    let target = program
        .ancestors()
        .find(|directory| directory.join("CACHEDIR.TAG").is_file())
        .expect("cargo runs benchmarks in its target directory");
    target.to_owned()
}

/// Makes a bundle of some plugins of another, in its order.
pub(crate) fn only(bundle: &Path, names: &[&str]) -> TempDir {
    let mut manifest = manifest(bundle);
    let plugins = manifest["plugins"]
        .as_array_mut()
        .expect("a manifest lists plugins");
    plugins.retain(|plugin| {
        plugin["name"]
            .as_str()
            .is_some_and(|name| names.contains(&name))
    });
    assert_eq!(
        plugins.len(),
        names.len(),
        "the bundle has each of {names:?}"
    );
    let files: Vec<String> = plugins
        .iter()
        .filter_map(|plugin| plugin["file"].as_str())
        .map(str::to_owned)
        .collect();

    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for file in files {
        fs::copy(bundle.join(&file), directory.path().join(&file))
            .expect("the bundle has the file");
    }
    write(&directory, &manifest);
    directory
}

/// Makes a bundle of one plugin.
pub(crate) fn of(name: &str, module: &[u8]) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let file = format!("{name}.wasm");
    fs::write(directory.path().join(&file), module).expect("a temporary file can be written");
    let manifest = json!({
        "apiVersion": "podloom.dev/v1alpha1",
        "kind": "MutatorChain",
        "plugins": [{ "name": name, "file": file, "allow": [] }],
    });
    write(&directory, &manifest);
    directory
}

/// Returns a plugin's configuration as JSON text.
pub(crate) fn config(bundle: &Path, name: &str) -> String {
    let manifest = manifest(bundle);
    let plugins = manifest["plugins"]
        .as_array()
        .expect("a manifest lists plugins");
    let plugin = plugins
        .iter()
        .find(|plugin| plugin["name"] == name)
        .expect("the bundle has the plugin");
    plugin["config"].to_string()
}

fn manifest(bundle: &Path) -> Value {
    let path = bundle.join("chain.yaml");
    let Ok(text) = fs::read_to_string(&path) else {
        // Nothing else can be measured without it.
        panic_about(&path)
    };
    serde_saphyr::from_str(&text).expect("the manifest is YAML")
}

#[expect(clippy::panic, reason = "a benchmark has no other way to stop")]
fn panic_about(path: &Path) -> ! {
    panic!(
        "{} is missing: run `cargo xtask plugins`, or set PODLOOM_BUNDLE",
        path.display()
    )
}

/// JSON is YAML.
fn write(directory: &TempDir, manifest: &Value) {
    let path = directory.path().join("chain.yaml");
    fs::write(path, manifest.to_string()).expect("a temporary file can be written");
}
