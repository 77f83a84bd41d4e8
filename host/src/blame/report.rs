//! What the command prints.

mod json;
mod text;

use std::collections::BTreeSet;

use podloom_mutators::MutationEntry;
use serde_json::Value;

use super::authors::{Blamed, is_at_or_below};
use super::proof::Proof;
use super::stamp::Stamp;
use crate::cli::BlameFormat;
use crate::managed_fields::ManagedFields;
use crate::output;

/// A pod, and who wrote its lines.
pub(super) struct Report<'a> {
    pub(super) pod: &'a Value,
    pub(super) lines: &'a [Blamed],
    pub(super) stamp: &'a Stamp,
    pub(super) fields: &'a ManagedFields<'a>,
    pub(super) proof: &'a Proof,
}

/// The report as text.
pub(super) fn render(report: &Report<'_>, format: BlameFormat) -> anyhow::Result<String> {
    match format {
        BlameFormat::Text => Ok(text::of(report)),
        BlameFormat::Json => output::json_text(&json::of(report)),
    }
}

impl Report<'_> {
    /// As `shop/web`.
    fn name(&self) -> String {
        let text = |field: &str| {
            let metadata = self.pod.get("metadata");
            metadata.and_then(|metadata| metadata.get(field)?.as_str())
        };
        let name = text("name").or_else(|| text("generateName"));
        let name = name.unwrap_or("(without a name)");
        match text("namespace") {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }

    /// The managers that made the pod, each once.
    fn makers(&self) -> BTreeSet<&str> {
        let makers = self.fields.entries().filter(|entry| entry.is_maker);
        makers.map(|entry| entry.manager.as_str()).collect()
    }

    /// The paths that a plugin wrote, and where the pod has nothing: it removed that, or somebody did later.
    fn gone<'p>(&self, plugin: &'p MutationEntry) -> Vec<&'p str> {
        let is_there = |path: &str| {
            let mut lines = self.lines.iter();
            lines.any(|line| is_at_or_below(&line.line.path, path))
        };
        let paths = plugin.paths.iter().map(String::as_str);
        paths.filter(|path| !is_there(path)).collect()
    }
}
