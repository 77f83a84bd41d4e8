//! Has cargo build the crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::Value;

use super::TARGET;
use crate::output::tell;
use crate::refusal::Failure;

/// They would replace the flags in .cargo/config.toml, and with them the small stack that calls are quick by.
const RUSTFLAGS: [&str; 2] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"];

/// Refuses a directory in which there is no crate.
pub(super) fn check(directory: &Path) -> Result<(), Failure> {
    let manifest = directory.join("Cargo.toml");
    if manifest.is_file() {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "{}: no such file; name the directory of a plugin's crate, or begin one with `podloom plugin new`",
        manifest.display()
    )))
}

/// Makes a release of the crate in a directory; returns the WebAssembly of it.
pub(super) fn build(directory: &Path) -> Result<Vec<u8>, Failure> {
    let manifest = directory.join("Cargo.toml");
    let manifest = manifest
        .canonicalize()
        .with_context(|| manifest.display().to_string())?;
    let output = command(directory, &manifest)
        .output()
        .context("could not start cargo; a plugin is built with Rust, see https://rustup.rs")?;
    if !output.status.success() {
        return Err(Failure::refused(format!(
            "{}: cargo could not build it ({})",
            directory.display(),
            output.status
        )));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let file = module(&messages, &manifest).ok_or_else(|| {
        Failure::refused(format!(
            "{}: this crate makes no plugin; its Cargo.toml needs\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]",
            directory.join("Cargo.toml").display()
        ))
    })?;
    Ok(fs::read(&file).with_context(|| file.display().to_string())?)
}

/// Cargo tells people on standard error, and us on standard output what it has made.
fn command(directory: &Path, manifest: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--lib", "--target", TARGET])
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--manifest-path",
        ])
        .arg(manifest)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    for name in RUSTFLAGS {
        if std::env::var_os(name).is_some_and(|flags| !flags.is_empty()) {
            tell(&format!(
                "{name} of the environment is left out; the flags of a plugin stand in its .cargo/config.toml\n"
            ));
        }
        cargo.env_remove(name);
    }
    cargo
}

/// The WebAssembly file among what cargo says it has made of a manifest.
fn module(messages: &str, manifest: &Path) -> Option<PathBuf> {
    let is_ours = |message: &Value| {
        let path = message.get("manifest_path").and_then(Value::as_str);
        path.is_some_and(|path| {
            Path::new(path)
                .canonicalize()
                .is_ok_and(|path| path == manifest)
        })
    };
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(is_ours)
        .filter_map(|message| message.get("filenames").cloned())
        .flat_map(|files| files.as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| {
            file.extension()
                .is_some_and(|extension| extension == "wasm")
        })
}
