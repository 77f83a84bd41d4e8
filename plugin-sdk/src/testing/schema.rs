//! The schema of a plugin's configuration, and what it refuses.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use podloom_config_schema::Problem;
use schemars::generate::SchemaSettings;
use schemars::transform::ReplaceUnevaluatedProperties;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::Mutator;

/// A plugin that [`mutator!`](crate::mutator!) exports. The macro implements this trait, so that tests know whether the plugin has a
/// schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not exported as a plugin, so it is not known whether its configuration has a schema",
    note = "add `podloom_plugin_sdk::mutator!({Self});`, with `schema = \"config.schema.json\"` if it has one"
)]
pub trait Exported: Mutator {
    /// Returns the schema of its configuration, if it has one.
    fn config_schema() -> Option<Schema>;
}

/// Configurations that match the schema of their type. Tests use the same ones again and again, and a check takes milliseconds.
static ACCEPTED: Mutex<BTreeSet<(TypeId, String)>> = Mutex::new(BTreeSet::new());

/// Checks a configuration against the schema of its plugin, if there is one, as the host does; `text` is the configuration as JSON.
pub(super) fn check<M: Exported>(config: &Value, text: &str) -> Result<(), Vec<String>> {
    let accepted = || ACCEPTED.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (TypeId::of::<M::Config>(), text.to_owned());
    if accepted().contains(&key) {
        return Ok(());
    }
    let Some(schema) = M::config_schema() else {
        return Ok(());
    };
    podloom_config_schema::check(config, schema.as_value()).map_err(sentences)?;
    accepted().insert(key);
    Ok(())
}

fn sentences(problem: Problem) -> Vec<String> {
    let Problem::Rejected { complaints, more } = problem else {
        return vec![problem.to_string()];
    };
    let mut sentences: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    if more > 0 {
        sentences.push(format!("and {more} more"));
    }
    sentences
}

/// Returns the schema of a configuration type, as [`mutator!`](crate::mutator!) writes it into the file.
#[must_use]
pub fn schema_of<C: JsonSchema>() -> Schema {
    // The host refuses `unevaluatedProperties`, which derives write for `deny_unknown_fields` with a flattened enum.
    let settings =
        SchemaSettings::default().with_transform(ReplaceUnevaluatedProperties::default());
    settings.into_generator().into_root_schema_for::<C>()
}
