//! `podloom plugin test` in the crate of a plugin: build, schema, cases and the bundle's chain.
#![expect(
    clippy::unwrap_used,
    reason = "shared helpers may panic, like the tests themselves"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{Ran, bundle, podloom_in, root};

/// A new crate, with the SDK of this checkout; none where plugins cannot be built.
fn new_crate() -> Option<TempDir> {
    // The target for WebAssembly is installed where the standard plugins are built.
    bundle()?;
    let directory = TempDir::new().unwrap();
    // So that a workspace around the temporary directory does not claim the new crate.
    fs::write(directory.path().join("Cargo.toml"), "[workspace]\n").unwrap();
    let sdk = root().join("plugin-sdk");
    let new = ["plugin", "new", "tides", "--sdk", sdk.to_str().unwrap()];
    let ran = podloom_in(directory.path(), &new, "");
    assert_eq!(ran.code, 0, "{}", ran.text());
    // The versions that our workspace has: those that are compiled already need no network.
    fs::copy(
        root().join("Cargo.lock"),
        directory.path().join("tides/Cargo.lock"),
    )
    .unwrap();
    Some(directory)
}

/// Runs podloom in the crate. The dependencies are built once for all runs of this test.
fn podloom(directory: &TempDir, arguments: &[&str]) -> Ran {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-crate");
    let output = Command::new(env!("CARGO_BIN_EXE_podloom"))
        .args(arguments)
        .current_dir(directory.path().join("tides"))
        .env("CARGO_TARGET_DIR", target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .env_remove("CI")
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn check(directory: &TempDir, arguments: &[&str], code: i32, expected: &[&str]) {
    let ran = podloom(directory, arguments);
    assert_eq!(ran.code, code, "{}", ran.text());
    for expected in expected {
        assert!(ran.text().contains(expected), "{expected}: {}", ran.text());
    }
}

fn edit(directory: &TempDir, file: &str, from: &str, to: &str) {
    let path = directory.path().join("tides").join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_plugin_is_built_and_tested_in_its_crate() {
    let Some(directory) = new_crate() else {
        return;
    };
    let test = ["plugin", "test"];
    let fine = [
        "built bundle/tides.wasm.gz, ",
        "ok   several",
        "chain bundle: 1 plugin: deterministic, and idempotent where required, on 3 sample pods and 3 pods of yours\n",
    ];
    check(&directory, &test, 0, &fine);

    // The type of the configuration changes, and with it the schema.
    edit(
        &directory,
        "src/lib.rs",
        "/// Give its value.\n",
        "/// Give its value, as text.\n",
    );
    let file = "bundle/tides.wasm.gz";
    let before = fs::read(directory.path().join("tides").join(file)).unwrap();
    let old = "the schema of the configuration is old: the type of the configuration has changed since the file was written; \
               write it with `podloom plugin test --update`, which also rewrites the expected results of the cases, and commit it";
    check(&directory, &["plugin", "build"], 1, &[old]);
    check(&directory, &test, 1, &[old]);
    let after = fs::read(directory.path().join("tides").join(file)).unwrap();
    assert!(
        before == after,
        "a plugin with an old schema is not put into the bundle"
    );

    // A plugin's file alone is tested as it is, with a warning.
    let alone = [
        "plugin", "test", file, "--chain", "bundle", "--cases", "cases",
    ];
    let older = "warning: bundle/tides.wasm.gz is older than src/lib.rs: `podloom plugin build` builds it again";
    check(&directory, &alone, 0, &[older]);
    check(&directory, &["chain", "check", "bundle"], 0, &[older]);

    let update = ["plugin", "test", "--update"];
    let written = "the schema of the configuration was old and has been rewritten";
    check(&directory, &update, 0, &[written, fine[2]]);
    let schema = fs::read_to_string(directory.path().join("tides/config.schema.json")).unwrap();
    assert!(schema.contains("Give its value, as text."), "{schema}");
    check(&directory, &test, 0, &fine);
    let ran = podloom(&directory, &alone);
    assert!(!ran.stderr.contains("is older"), "{}", ran.text());
}
