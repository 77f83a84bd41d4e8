//! Sets a plugin up alone, in a chain of one.

use std::sync::Arc;

use podloom_mutators::{Bundle, Chain, Engine, inspect};
use serde_json::{Map, Value, json};

use crate::refusal::Failure;

/// The plugin's file in its bundle of one.
const FILE: &str = "plugin.wasm";

/// What the plugin may do.
pub(super) enum Rights {
    /// What it asks for and nothing more.
    Asked,
    /// To write these paths, whatever it asks for.
    Allowed(Vec<String>),
    /// What this entry of a chain says.
    Entry(Map<String, Value>),
}

/// A plugin that is tried, and how.
pub(super) struct Bench {
    pub(super) engine: Arc<Engine>,
    /// The plugin's file as it was named.
    pub(super) name: String,
    pub(super) file: Vec<u8>,
    pub(super) rights: Rights,
    /// Its configuration where a case has none of its own.
    pub(super) config: Option<Map<String, Value>>,
    pub(super) is_idempotent: bool,
    /// The last chain that was made: the next one need not compile the plugin again.
    pub(super) last: Option<Chain>,
}

impl Bench {
    /// A chain of the plugin alone, with a case's own configuration if it has one.
    pub(super) fn chain(&mut self, config: Option<&Map<String, Value>>) -> Result<&Chain, Failure> {
        let bundle = self.bundle(config.or(self.config.as_ref()))?;
        let loaded = match &self.last {
            Some(earlier) => Chain::load_after(earlier, &bundle),
            None => Chain::load(&self.engine, &bundle),
        };
        let chain = loaded.map_err(|error| self.refused(&error.problem.to_string()))?;
        Ok(self.last.insert(chain))
    }

    fn bundle(&self, config: Option<&Map<String, Value>>) -> Result<Bundle, Failure> {
        let mut entry = match &self.rights {
            Rights::Entry(entry) => entry.clone(),
            Rights::Asked => self.entry(config, None)?,
            Rights::Allowed(paths) => self.entry(config, Some(paths))?,
        };
        entry.insert("file".to_owned(), FILE.into());
        if let Some(config) = config {
            entry.insert("config".to_owned(), config.clone().into());
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
        .map_err(|error| Failure::Broken(anyhow::Error::new(error)))
    }

    /// An entry that grants what the plugin asks for with a configuration, or other paths to write.
    fn entry(
        &self,
        config: Option<&Map<String, Value>>,
        allow: Option<&[String]>,
    ) -> Result<Map<String, Value>, Failure> {
        let config = config.cloned().unwrap_or_default();
        let found = inspect(&self.engine, &self.file, Some(&config))
            .map_err(|error| self.refused(&error.to_string()))?;
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

    fn refused(&self, problem: &str) -> Failure {
        Failure::refused(format!("{}: the plugin {problem}", self.name))
    }
}
