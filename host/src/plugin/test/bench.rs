//! Puts a plugin into a chain of its own.

use std::sync::Arc;

use podloom_mutators::{Bundle, Chain, Engine, inspect};
use serde_json::{Map, Value, json};

use crate::error::CommandError;
use crate::load;
use crate::plugin::config::{ConfigFile, unusable};

/// The name of the plugin's file in that chain.
const FILE: &str = "plugin.wasm";

/// Which rights the plugin gets.
pub(super) enum Rights {
    /// Exactly those that it asks for.
    Asked,
    /// To write these paths, whatever it asks for.
    Allowed(Vec<String>),
    /// Those of this entry of a chain.
    Entry(Map<String, Value>),
}

/// The plugin under test, and how it is set up.
pub(super) struct Bench {
    pub(super) engine: Arc<Engine>,
    /// The plugin's file as the user named it.
    pub(super) name: String,
    pub(super) file: Vec<u8>,
    pub(super) rights: Rights,
    /// The configuration for cases that have none of their own.
    pub(super) config: Option<ConfigFile>,
    pub(super) is_idempotent: bool,
    /// The last chain, so that the next one can reuse the compiled plugin.
    pub(super) last: Option<Chain>,
}

impl Bench {
    /// A chain with only this plugin, and with the configuration of the case if it has one.
    pub(super) fn chain(&mut self, config: Option<&ConfigFile>) -> Result<&Chain, CommandError> {
        let config = config.or(self.config.as_ref());
        let bundle = self.bundle(config)?;
        let loaded = match &self.last {
            Some(earlier) => Chain::load_after(earlier, &bundle),
            None => Chain::load(&self.engine, &bundle),
        };
        let chain = loaded.map_err(|error| unusable(&self.name, *error.problem, config))?;
        if self.last.is_none() {
            for warning in chain.warnings() {
                load::warn(&format!("{}: {}", self.name, warning.message));
            }
        }
        Ok(self.last.insert(chain))
    }

    fn bundle(&self, config: Option<&ConfigFile>) -> Result<Bundle, CommandError> {
        let mut entry = match &self.rights {
            Rights::Entry(entry) => entry.clone(),
            Rights::Asked => self.entry(config, None)?,
            Rights::Allowed(paths) => self.entry(config, Some(paths))?,
        };
        entry.insert("file".to_owned(), FILE.into());
        if let Some(config) = config {
            entry.insert("config".to_owned(), config.fields.clone().into());
        }
        if !self.is_idempotent {
            entry.insert("idempotent".to_owned(), false.into());
        }
        let manifest = json!({
            "apiVersion": "podloom.dev/v1alpha1",
            "kind": "MutatorChain",
            "plugins": [entry],
        });
        Bundle::from_parts(
            &manifest.to_string(),
            [(FILE.to_owned(), self.file.clone())],
        )
        .map_err(|error| CommandError::Other(anyhow::Error::new(error)))
    }

    /// An entry that grants what the plugin asks for, or these paths instead of the writes that it asks for.
    fn entry(
        &self,
        config: Option<&ConfigFile>,
        allow: Option<&[String]>,
    ) -> Result<Map<String, Value>, CommandError> {
        let fields = config.map(|config| config.fields.clone());
        let found = inspect(&self.engine, &self.file, Some(&fields.unwrap_or_default()))
            .map_err(|error| unusable(&self.name, error, config))?;
        let about = found.description;
        let fields = [
            ("name", Value::from(about.name)),
            (
                "allow",
                allow.map_or(about.writes, <[String]>::to_vec).into(),
            ),
            ("read", about.reads.into()),
        ];
        Ok(fields
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect())
    }
}
