//! `podloom plugin new`: the crate that a plugin begins with.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::NewArguments;
use crate::output;
use crate::refusal::Failure;

/// The name that stands in the template wherever the plugin's own belongs.
const TEMPLATE: &str = "podloom-plugin-template";

/// What stands in the template's manifest where the SDK is named.
const SDK: &str = "podloom-plugin-sdk = SDK";

/// A file of the template, with where it goes.
macro_rules! template {
    ($($target:literal from $source:literal),* $(,)?) => {
        [$(($target, include_str!(concat!("../../../plugin-sdk/template/", $source)))),*]
    };
}

/// The template is a plugin of our own workspace, so that it is known to work. Files that cargo or git would heed there have
/// other names.
const FILES: [(&str, &str); 15] = template![
    ".cargo/config.toml" from "cargo-config.toml",
    ".gitignore" from "gitignore",
    "Cargo.toml" from "crate.toml",
    "README.md" from "README.md",
    "bundle/chain.yaml" from "bundle/chain.yaml",
    "cases/own-zone.golden.yaml" from "cases/own-zone.golden.yaml",
    "cases/own-zone.pod.yaml" from "cases/own-zone.pod.yaml",
    "cases/plain.golden.yaml" from "cases/plain.golden.yaml",
    "cases/plain.pod.yaml" from "cases/plain.pod.yaml",
    "cases/several.config.yaml" from "cases/several.config.yaml",
    "cases/several.golden.yaml" from "cases/several.golden.yaml",
    "cases/several.pod.yaml" from "cases/several.pod.yaml",
    "config.schema.json" from "config.schema.json",
    "src/lib.rs" from "src/lib.rs",
    "src/tests.rs" from "src/tests.rs",
];

/// Writes the crate, and tells what to do next.
pub(crate) fn run(arguments: &NewArguments) -> Result<(), Failure> {
    let name = &arguments.name;
    let directory = arguments
        .directory
        .clone()
        .unwrap_or_else(|| PathBuf::from(name));
    let sdk = arguments.sdk.as_deref().map(sdk).transpose()?;
    claim(&directory)?;
    for (path, text) in FILES {
        let text = text
            .replace(TEMPLATE, name)
            .replace(SDK, &dependency(sdk.as_deref()));
        write(&directory.join(path), &text)?;
    }
    let place = directory.display();
    output::print(&format!(
        "{place} holds the plugin {name}. Next:\n  \
         cd {place}\n  \
         cargo test              # its native tests\n  \
         podloom plugin build    # makes bundle/{name}.wasm.gz\n\
         {place}/README.md has the rest.\n"
    ))
}

/// The SDK as the manifest names it.
fn dependency(sdk: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match sdk {
        // What JSON escapes in a text, and how, is so in TOML too.
        Some(path) => format!(
            "podloom-plugin-sdk = {{ path = {} }}",
            serde_json::Value::from(path)
        ),
        None => format!("podloom-plugin-sdk = \"{version}\""),
    }
}

/// The whole path of an SDK, since a relative one would be seen from another directory.
fn sdk(directory: &Path) -> Result<String, Failure> {
    let refused = |why: &str| {
        Failure::refused(format!(
            "--sdk {}: {why}; name the directory plugin-sdk of a checkout of Podloom",
            directory.display()
        ))
    };
    let manifest = fs::read_to_string(directory.join("Cargo.toml"))
        .map_err(|_| refused("no Cargo.toml is there"))?;
    if !manifest.contains("name = \"podloom-plugin-sdk\"") {
        return Err(refused("another crate is there"));
    }
    let whole = directory
        .canonicalize()
        .with_context(|| directory.display().to_string())?;
    whole
        .to_str()
        .map(str::to_owned)
        .ok_or_else(|| refused("its path is not UTF-8"))
}

/// Nothing is overwritten. A repository without files is empty enough.
fn claim(directory: &Path) -> Result<(), Failure> {
    let refused = |why: &str| {
        Failure::refused(format!(
            "{}: {why}; name another directory",
            directory.display()
        ))
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(refused("this is a file"));
        }
        Err(error) => Err(error).with_context(|| directory.display().to_string())?,
    };
    for entry in entries {
        let entry = entry.with_context(|| directory.display().to_string())?;
        if entry.file_name() != ".git" {
            return Err(refused("the directory is not empty"));
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    fs::write(path, text).with_context(|| path.display().to_string())
}
