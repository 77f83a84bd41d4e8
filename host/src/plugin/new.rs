//! `podloom plugin new`: creates the crate of a new plugin.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use podloom_mutators::manifest_schema;

use crate::cli::NewArguments;
use crate::error::CommandError;
use crate::output::{self, json_text};

/// The plugin name in the template, which is replaced.
const TEMPLATE: &str = "podloom-plugin-template";

/// The SDK dependency in the template's manifest, which is replaced.
const SDK: &str = "podloom-plugin-sdk = SDK";

/// The files of the template: where each goes, and its content.
macro_rules! template {
    ($($target:literal from $source:literal),* $(,)?) => {
        [$(($target, include_str!(concat!("../../../plugin-sdk/template/", $source)))),*]
    };
}

/// The template is a plugin of our own workspace, so its tests run there. Files that cargo or git would read there have other names.
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

/// Writes the crate, and prints the next steps.
pub(crate) fn run(arguments: &NewArguments) -> Result<(), CommandError> {
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
    // chain.yaml names it, for editors.
    let schema = json_text(&manifest_schema())?;
    write(&directory.join("chain.schema.json"), &schema)?;
    let shown = directory.display();
    output::print(&format!(
        "created the plugin {name} in {shown}. Next:\n  \
         cd {shown}\n  \
         cargo test              # runs its native tests\n  \
         podloom plugin test     # writes bundle/{name}.wasm.gz, and runs it on the cases\n\
         For more see {shown}/README.md.\n"
    ))
}

/// The SDK dependency for the manifest.
fn dependency(sdk: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match sdk {
        // A JSON string is a valid TOML string.
        Some(path) => format!(
            "podloom-plugin-sdk = {{ path = {} }}",
            serde_json::Value::from(path)
        ),
        None => format!("podloom-plugin-sdk = \"{version}\""),
    }
}

/// The absolute path of the SDK: a relative one would be wrong in the new crate's directory.
fn sdk(directory: &Path) -> Result<String, CommandError> {
    let invalid = |problem: &str| {
        CommandError::invalid(format!(
            "--sdk {}: {problem}; name the directory plugin-sdk of a checkout of Podloom",
            directory.display()
        ))
    };
    let manifest = fs::read_to_string(directory.join("Cargo.toml"))
        .map_err(|_| invalid("it has no Cargo.toml"))?;
    if !manifest.contains("name = \"podloom-plugin-sdk\"") {
        return Err(invalid("it is another crate"));
    }
    let whole = directory
        .canonicalize()
        .with_context(|| directory.display().to_string())?;
    whole
        .to_str()
        .map(str::to_owned)
        .ok_or_else(|| invalid("its path is not UTF-8"))
}

/// Checks that the directory is empty or missing, so that nothing is overwritten. A `.git` directory is allowed.
fn claim(directory: &Path) -> Result<(), CommandError> {
    let invalid = |problem: &str| {
        CommandError::invalid(format!(
            "{}: {problem}; name another directory",
            directory.display()
        ))
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(invalid("it is a file"));
        }
        Err(error) => Err(error).with_context(|| directory.display().to_string())?,
    };
    for entry in entries {
        let entry = entry.with_context(|| directory.display().to_string())?;
        if entry.file_name() != ".git" {
            return Err(invalid("the directory is not empty"));
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    fs::write(path, text).with_context(|| path.display().to_string())
}
