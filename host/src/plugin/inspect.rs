//! `podloom plugin inspect`: shows what a plugin file contains.

use std::path::Path;

use podloom_mutators::{ConfigComplaint, Form, Inspection, PluginError, PluginSize, inspect};
use podloom_sbom::VersionInfo;
use serde_json::{Map, Value, json};

use crate::chain::{paths, size};
use crate::cli::{InspectArguments, ReportFormat};
use crate::error::{CommandError, Diagnostic};
use crate::explain::sheet;
use crate::manifest::Document;
use crate::output::json_text;
use crate::{load, manifest, output, sbom};

/// Compiles a plugin, calls its description, and prints it.
pub(crate) fn run(arguments: &InspectArguments) -> Result<(), CommandError> {
    let file = load::file(&arguments.file)?;
    let config = arguments.config.as_deref().map(ConfigFile::read);
    let config = config.transpose()?;
    let fields = config.as_ref().map(|config| &config.fields);
    let found = inspect(&load::engine()?, &file, fields).map_err(|error| {
        unusable(
            &arguments.file.display().to_string(),
            error,
            config.as_ref(),
        )
    })?;
    // A damaged list is no reason to hide the rest.
    let crates = sbom::of_plugin(&arguments.file, &file).unwrap_or_else(|error| {
        output::warn(&Diagnostic::new(error));
        None
    });
    output::print(&match arguments.output {
        ReportFormat::Text => describe(&found, crates.as_ref()),
        ReportFormat::Json => json(&found, crates.as_ref())?,
    })
}

fn describe(found: &Inspection, crates: Option<&VersionInfo>) -> String {
    let about = &found.description;
    let limits = match found.size {
        PluginSize::Standard => "",
        PluginSize::Large => "; its entry in chain.yaml needs limits: { size: Large }",
    };
    let (shipped, wasm) = (size(found.shipped_bytes), size(found.wasm_bytes));
    let configuration = match about.config_schema {
        Some(_) => "has a schema, see -o json",
        None => "none",
    };
    let made_of = match crates {
        Some(crates) => format!("{} crates, see podloom sbom", crates.packages.len()),
        None => "unknown; podloom plugin build records it".to_owned(),
    };
    let rows = [
        ("contract", format!("{} ({})", found.contract, form(found))),
        ("sha256", found.sha256.clone()),
        (
            "size",
            format!("{shipped} as shipped, {wasm} of Wasm{limits}"),
        ),
        (
            "compiled in",
            format!("{} ms", found.compile_time.as_millis()),
        ),
        ("imports", paths(&found.imports)),
        ("needs to write", paths(&about.writes)),
        ("needs to read", paths(&about.reads)),
        ("configuration", configuration.to_owned()),
        ("made of", made_of),
    ];
    sheet(
        &format!("{} {}", about.name, about.version),
        &about.summary,
        &rows,
    )
}

fn json(found: &Inspection, crates: Option<&VersionInfo>) -> anyhow::Result<String> {
    let about = &found.description;
    json_text(&json!({
        "name": about.name,
        "version": about.version,
        "summary": about.summary,
        "contract": found.contract,
        "form": form(found),
        "sha256": found.sha256,
        "shippedBytes": found.shipped_bytes,
        "wasmBytes": found.wasm_bytes,
        "size": found.size.as_str(),
        "imports": found.imports,
        "writes": about.writes,
        "reads": about.reads,
        "sbom": crates.map(podloom_sbom::cyclonedx),
        "configSchema": about.config_schema.as_deref().map(serde_json::from_str::<Value>).transpose()?,
    }))
}

fn form(found: &Inspection) -> &'static str {
    match found.form {
        Form::CoreModule => "core module",
        Form::Component => "component",
    }
}

// The file with a plugin's configuration.

/// A configuration, and where its fields are written.
pub(super) struct ConfigFile {
    pub(super) fields: Map<String, Value>,
    document: Document,
}

impl ConfigFile {
    /// Reads a file: one YAML or JSON document, a map.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let name = path.display().to_string();
        let mut documents = manifest::read_any(&name)?;
        let count = documents.len();
        let Some(document) = documents.pop().filter(|_| count == 1) else {
            return Err(CommandError::invalid(format!(
                "{name}: a plugin's configuration must be one document, and the file has {count}"
            )));
        };
        let Value::Object(fields) = &document.value else {
            return Err(CommandError::invalid(format!(
                "{name}: a plugin's configuration must be a map"
            )));
        };
        let fields = fields.clone();
        Ok(Self { fields, document })
    }

    /// What is wrong, and where. What the plugin itself complains about has no line.
    fn diagnostic(&self, complaint: &ConfigComplaint) -> Diagnostic {
        let path = complaint.path.as_deref();
        let path = path.map(|pointer| manifest::steps(&self.document.value, pointer));
        let mut position = self.document.position(path.as_deref().unwrap_or_default());
        if path.is_none() {
            position.line = 0;
        }
        let message = format!("invalid configuration: {}", complaint.message);
        Diagnostic::at(position, message)
    }
}

/// Why a plugin cannot run with a configuration. What is wrong in a file is reported where it is written there.
pub(super) fn unusable(
    plugin: &str,
    error: PluginError,
    config: Option<&ConfigFile>,
) -> CommandError {
    match (error, config) {
        (PluginError::Config(complaints), Some(config)) => {
            let diagnostics = complaints.iter();
            let diagnostics = diagnostics.map(|complaint| config.diagnostic(complaint));
            CommandError::Invalid(diagnostics.collect())
        }
        // Without lines: they would be those of a manifest that the user does not have.
        (error, _) => {
            let error = error.located(|_| 0);
            CommandError::invalid(format!("{plugin}: the plugin {error}"))
        }
    }
}
