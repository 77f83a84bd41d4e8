//! The schema of a configuration type, and what it refuses.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashSet;

use podloom_config_schema::Problem;
use schemars::generate::SchemaSettings;
use schemars::transform::ReplaceUnevaluatedProperties;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::NoConfig;

thread_local! {
    /// Configurations that match the schema of their type. Tests use the same ones again and again, and a check takes milliseconds.
    static ACCEPTED: RefCell<HashSet<(TypeId, String)>> = RefCell::default();
}

/// Checks a configuration against the schema of its type, as the host does; `text` is the configuration as JSON.
pub(super) fn check<C: JsonSchema + 'static>(
    config: &Value,
    text: &str,
) -> Result<(), Vec<String>> {
    let of = TypeId::of::<C>();
    if of == TypeId::of::<NoConfig>() {
        // Its plugin has no schema, and the type itself refuses every field.
        return Ok(());
    }
    let key = (of, text.to_owned());
    if ACCEPTED.with_borrow(|accepted| accepted.contains(&key)) {
        return Ok(());
    }
    podloom_config_schema::check(config, config_schema::<C>().as_value()).map_err(sentences)?;
    ACCEPTED.with_borrow_mut(|accepted| accepted.insert(key));
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

/// The host refuses `unevaluatedProperties`, which derives write for `deny_unknown_fields` with a flattened enum.
pub(super) fn config_schema<C: JsonSchema>() -> Schema {
    let settings =
        SchemaSettings::default().with_transform(ReplaceUnevaluatedProperties::default());
    settings.into_generator().into_root_schema_for::<C>()
}
