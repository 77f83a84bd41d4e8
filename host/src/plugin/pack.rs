//! `podloom plugin pack`: packs a plugin as the CNCF's artifact for Wasm.
//!
//! The format is that of the CNCF's TAG Runtime, "Wasm OCI Artifact layout": one layer with the Wasm as it is, and a config that
//! says what it imports and exports.

use podloom_image::{Artifact, write_artifact};
use podloom_mutators::{Form, Inspection, inspect, sha256, wasm_of};
use serde_json::{Value, json};

use super::inspect::unusable;
use crate::chain::size;
use crate::cli::PackArguments;
use crate::error::CommandError;
use crate::{load, output};

const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
const LAYER_TYPE: &str = "application/wasm";
/// The format wants a time. A constant one keeps the artifact the same for the same plugin.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// Checks a plugin, and writes the artifact.
pub(crate) fn run(arguments: &PackArguments) -> Result<(), CommandError> {
    let name = arguments.file.display().to_string();
    let file = load::file(&arguments.file)?;
    let found =
        inspect(&load::engine()?, &file, None).map_err(|error| unusable(&name, error, None))?;
    let wasm = wasm_of(&file, found.size)
        .map_err(|error| CommandError::invalid(format!("{name}: the plugin {error}")))?;
    let about = &found.description;
    let artifact = Artifact {
        names: arguments.names.clone(),
        config_type: CONFIG_TYPE.to_owned(),
        config: config(&found, &wasm),
        layer_type: LAYER_TYPE.to_owned(),
        file_name: format!("{}.wasm", about.name),
        layer: wasm,
        annotations: [
            ("title", &about.name),
            ("version", &about.version),
            ("description", &about.summary),
        ]
        .map(|(key, text)| (format!("org.opencontainers.image.{key}"), text.clone()))
        .into(),
    };
    let written = write_artifact(&artifact, &arguments.output).map_err(load::image_error)?;
    output::print_note(&format!(
        "{} {}: {} of Wasm as {}\n{}\n",
        about.name,
        about.version,
        size(found.wasm_bytes),
        arguments.names.join(", "),
        written.digest
    ));
    Ok(())
}

fn config(found: &Inspection, wasm: &[u8]) -> Value {
    let mut config = json!({
        "created": CREATED,
        "architecture": "wasm",
        "os": match found.form {
            // The format has no name for a module that needs no system.
            Form::CoreModule => "wasip1",
            Form::Component => "wasip2",
        },
        "layerDigests": [format!("sha256:{}", sha256(wasm))],
    });
    if found.form == Form::Component {
        config["component"] = json!({ "imports": found.imports, "exports": found.exports });
    }
    config
}
