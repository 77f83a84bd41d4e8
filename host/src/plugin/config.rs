//! The file with a plugin's configuration.

use std::path::Path;

use podloom_mutators::{ConfigComplaint, ConfigError, PluginError};
use serde_json::{Map, Value};

use crate::error::{CommandError, Diagnostic};
use crate::manifest::{self, Depth, Document};

/// A configuration, and where its fields are written.
pub(super) struct ConfigFile {
    pub(super) fields: Map<String, Value>,
    document: Document,
}

impl ConfigFile {
    /// Reads a file: one YAML or JSON document, a map.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let name = path.display().to_string();
        let mut documents = manifest::read_any(&name, Depth::Flat)?;
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
        (PluginError::Config(ConfigError::Rejected(complaints)), Some(config)) => {
            let diagnostics = complaints.iter();
            let diagnostics = diagnostics.map(|complaint| config.diagnostic(complaint));
            CommandError::Invalid(diagnostics.collect())
        }
        // Without lines: they would be those of a manifest that the user does not have.
        (PluginError::Config(error), _) => {
            let error = error.located(|_| 0);
            CommandError::invalid(format!("{plugin}: the plugin {error}"))
        }
        (error, _) => CommandError::invalid(format!("{plugin}: the plugin {error}")),
    }
}
