//! `podloom sbom`, and the list of crates that scanners find in the binary and in plugins.

use std::path::Path;

use cyclonedx_bom::models::bom::Bom;
use cyclonedx_bom::prelude::{SpecVersion, Validate};
use serde_json::Value;

use super::{bundle, fixtures, podloom, podloom_in};

/// The names of all crates in a CycloneDX document.
fn crates(document: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(document).expect("JSON");
    assert_eq!(document["bomFormat"], "CycloneDX");
    let components = document["components"].as_array().expect("a list");
    let name = |component: &Value| component["name"].as_str().expect("a name").to_owned();
    components.iter().map(name).collect()
}

/// The crates that another implementation finds in a file.
fn scanned(path: &Path) -> Vec<String> {
    let limits = auditable_info::Limits::default();
    let found = auditable_info::audit_info_from_file(path, limits).expect("a list of crates");
    let packages = found.packages.into_iter();
    packages
        .filter(|package| !package.root)
        .map(|package| package.name)
        .collect()
}

#[test]
fn the_operator_lists_its_crates() {
    let ran = podloom(&["sbom"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let listed = crates(&ran.stdout);
    for name in ["podloom-mutators", "wasmtime", "kube", "rustls"] {
        assert!(listed.iter().any(|listed| listed == name), "{name}");
    }
    // These run while it is built, or in its tests.
    for name in ["serde_derive", "insta", "podloom-xtask"] {
        assert!(!listed.iter().any(|listed| listed == name), "{name}");
    }
    assert!(!ran.stdout.contains(env!("CARGO_MANIFEST_DIR")));
}

#[test]
fn the_document_is_what_another_implementation_calls_valid() {
    let document = podloom(&["sbom"]).stdout;
    let bom = Bom::parse_from_json_v1_5(document.as_bytes()).unwrap();
    let found = bom.validate_version(SpecVersion::V1_5);
    assert!(found.passed(), "{found:?}");
    assert_eq!(bom.components.unwrap().0.len(), crates(&document).len());
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[test]
fn a_scanner_finds_the_same_crates_in_the_operator() {
    let listed = crates(&podloom(&["sbom"]).stdout);
    assert_eq!(scanned(Path::new(env!("CARGO_BIN_EXE_podloom"))), listed);
}

#[test]
fn a_plugin_lists_its_crates() {
    let Some(bundle) = bundle() else { return };
    let file = bundle.join("labels.wasm.gz");
    let file = file.to_str().unwrap();
    let ran = podloom(&["sbom", file]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let listed = crates(&ran.stdout);
    assert!(
        listed.contains(&"podloom-plugin-sdk".to_owned()),
        "{listed:?}"
    );
    let ran = podloom(&["plugin", "inspect", file, "-o", "json"]);
    let about: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(crates(&about["sbom"].to_string()), listed);
    let ran = podloom(&["plugin", "inspect", file]);
    let row = format!(
        "made of        {} crates, see podloom sbom",
        listed.len() + 1
    );
    assert!(ran.stdout.contains(&row), "{}", ran.stdout);
    // As a scanner unpacks it.
    let unpacked = tempfile::NamedTempFile::new().unwrap();
    let mut wasm = flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap());
    std::io::copy(&mut wasm, &mut unpacked.as_file()).unwrap();
    assert_eq!(scanned(unpacked.path()), listed);
}

#[test]
fn a_plugin_without_a_list_is_an_error_that_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name: &str, bytes: &[u8], expected: &str| {
        std::fs::write(directory.path().join(name), bytes).unwrap();
        let ran = podloom_in(directory.path(), &["sbom", name], "");
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
        assert_eq!(ran.stderr, format!("error: {name}: {expected}\n"));
    };
    check(
        "none.wasm",
        b"\0asm\x01\0\0\0",
        "the plugin does not list what it is made of; build it with `podloom plugin build`, or ask who built it",
    );
    check(
        "bad.wasm",
        b"\0asm\x01\0\0\0\0\x0a\x07.dep-v0ab",
        "the section .dep-v0 is not compressed with zlib",
    );
    let broken = fixtures().join("bundles/not-wasm/broken.wasm");
    let ran = podloom(&["sbom", broken.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("broken.wasm: "), "{}", ran.stderr);
}
