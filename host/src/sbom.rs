//! `podloom sbom`: prints what this program or a plugin is made of.

use std::path::Path;

use podloom_mutators::{PluginSize, wasm_of};
use podloom_sbom::{SECTION, VersionInfo, cyclonedx, decode};
use wasmparser::{Parser, Payload};

use crate::cli::SbomArguments;
use crate::error::CommandError;
use crate::{load, output};

/// The operator's own crates: the build script makes this file.
const OWN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/crates"));

/// Prints the crates of a plugin, or the operator's own.
pub(crate) fn run(arguments: &SbomArguments) -> Result<(), CommandError> {
    let crates = match &arguments.file {
        None => decode(OWN).map_err(anyhow::Error::from)?,
        Some(path) => of_plugin(path, &load::file(path)?)
            .and_then(|crates| crates.ok_or_else(|| unknown(path)))
            .map_err(CommandError::invalid)?,
    };
    output::print(&output::json_text(&cyclonedx(&crates))?)
}

/// The crates that the file of a plugin lists, if it has a list. Errors name the file.
pub(crate) fn of_plugin(path: &Path, shipped: &[u8]) -> Result<Option<VersionInfo>, String> {
    let name = path.display();
    let wasm = wasm_of(shipped, PluginSize::Large).map_err(|error| format!("{name}: {error}"))?;
    let crates = section(&wasm).map(|content| decode(&content)).transpose();
    crates.map_err(|error| format!("{name}: {error}"))
}

fn unknown(path: &Path) -> String {
    format!(
        "{}: the plugin does not list what it is made of; build it with `podloom plugin build`, or ask who built it",
        path.display()
    )
}

/// The content of the section, in the file or in one of the modules inside a component. Whether the file is damaged elsewhere does not
/// matter here.
fn section(wasm: &[u8]) -> Option<Vec<u8>> {
    let payloads = Parser::new(0).parse_all(wasm).map_while(Result::ok);
    let mut found = payloads.filter_map(|payload| match payload {
        Payload::CustomSection(section) if section.name() == SECTION => {
            Some(section.data().to_vec())
        }
        _ => None,
    });
    found.next()
}
