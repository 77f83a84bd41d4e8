//! Runs cargo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::Context;
use serde_json::Value;

use super::TARGET;
use crate::error::CommandError;
use crate::output::print_note;

/// These variables would replace the flags in .cargo/config.toml. One of those sets a small stack, which keeps calls fast.
const RUSTFLAGS: [&str; 2] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"];

/// Checks that the directory contains a crate.
pub(super) fn check(directory: &Path) -> Result<(), CommandError> {
    let manifest = directory.join("Cargo.toml");
    if manifest.is_file() {
        return Ok(());
    }
    Err(CommandError::invalid(format!(
        "{}: no such file; name the directory of a plugin's crate, or create one with `podloom plugin new`",
        manifest.display()
    )))
}

/// Builds the crate in release mode, and returns the WebAssembly module.
pub(super) fn build(directory: &Path) -> Result<Vec<u8>, CommandError> {
    let manifest = directory.join("Cargo.toml");
    let manifest = manifest
        .canonicalize()
        .with_context(|| manifest.display().to_string())?;
    let output = run(&mut command(directory, &manifest))?;
    if !output.status.success() {
        return Err(CommandError::invalid(format!(
            "{}: cargo build failed ({}); see the messages above",
            directory.display(),
            output.status
        )));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let file = module(&messages, &manifest).ok_or_else(|| {
        CommandError::invalid(format!(
            "{}: cargo built no WebAssembly module; add these lines:\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]",
            directory.join("Cargo.toml").display()
        ))
    })?;
    Ok(fs::read(&file).with_context(|| file.display().to_string())?)
}

/// Compiles the crate's native unit tests, and returns the program that runs them; none if they do not compile.
pub(super) fn tests(directory: &Path) -> Result<Option<PathBuf>, CommandError> {
    let manifest = directory.join("Cargo.toml");
    let manifest = manifest
        .canonicalize()
        .with_context(|| manifest.display().to_string())?;
    let mut cargo = cargo(directory, &manifest, &["test", "--no-run", "--lib"]);
    let output = run(&mut cargo)?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let program = of_crate(&messages, &manifest)
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .next();
    Ok(program.filter(|_| output.status.success()))
}

fn run(cargo: &mut Command) -> anyhow::Result<Output> {
    cargo
        .output()
        .context("could not start cargo; install Rust, see https://rustup.rs")
}

/// Cargo prints diagnostics on standard error, and JSON about the files that it built on standard output.
fn cargo(directory: &Path, manifest: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .args(arguments)
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--manifest-path",
        ])
        .arg(manifest)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    cargo
}

fn command(directory: &Path, manifest: &Path) -> Command {
    let arguments = ["build", "--release", "--lib", "--target", TARGET];
    let mut cargo = cargo(directory, manifest, &arguments);
    for name in RUSTFLAGS {
        if std::env::var_os(name).is_some_and(|flags| !flags.is_empty()) {
            print_note(&format!(
                "ignoring the environment variable {name}: set the flags of a plugin in its .cargo/config.toml\n"
            ));
        }
        cargo.env_remove(name);
    }
    cargo
}

/// The WebAssembly file that cargo reports for a manifest.
fn module(messages: &str, manifest: &Path) -> Option<PathBuf> {
    of_crate(messages, manifest)
        .filter_map(|message| message.get("filenames").cloned())
        .flat_map(|files| files.as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| {
            file.extension()
                .is_some_and(|extension| extension == "wasm")
        })
}

/// Cargo's messages about the crate with this manifest.
fn of_crate(messages: &str, manifest: &Path) -> impl Iterator<Item = Value> {
    let is_ours = move |message: &Value| {
        let path = message.get("manifest_path").and_then(Value::as_str);
        path.is_some_and(|path| {
            Path::new(path)
                .canonicalize()
                .is_ok_and(|path| path == manifest)
        })
    };
    let messages = messages.lines();
    messages
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(is_ours)
}
