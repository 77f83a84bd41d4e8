//! Checks a plugin's configuration against its JSON Schema.
//!
//! A schema comes from a plugin and is not trusted, so time and memory are bounded: nothing is fetched, patterns are few, run in
//! linear time and take little memory, and references are expanded up to a limit.
//!
//! ```
//! use podloom_config_schema::{Problem, check};
//! use serde_json::json;
//!
//! let schema = json!({
//!     "type": "object",
//!     "properties": { "zone": { "type": "string" } },
//!     "additionalProperties": false,
//! });
//! assert_eq!(check(&json!({ "zone": "UTC" }), &schema), Ok(()));
//!
//! let Err(Problem::Rejected { complaints, .. }) = check(&json!({ "zoen": "UTC" }), &schema) else {
//!     panic!("the field is misspelt");
//! };
//! assert_eq!(complaints[0].to_string(), "config: unknown field zoen; did you mean zone?");
//! ```

mod complaint;
mod expansion;
mod steps;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

pub use self::complaint::Complaint;

/// Regular expressions in a schema. Each takes memory; the standard plugins have one in total.
const PATTERNS: usize = 64;
const PATTERN_BYTES: usize = 512;
/// Memory of one compiled regular expression. A class of all Unicode letters takes about 40 KiB.
const PATTERN_MEMORY: usize = 256 << 10;
/// How many complaints about one configuration are told.
const COMPLAINTS: usize = 20;

/// Why a configuration is not accepted. The texts may quote the schema, so they can be long and have invisible characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The schema is invalid, or one that cannot be checked in bounded time.
    #[error("the schema of the configuration is invalid, which the plugin's author must fix: {0}")]
    Schema(String),
    /// Checking the configuration would take too long.
    #[error("the configuration takes too many steps to check against its schema")]
    TooLarge,
    /// The configuration does not match the schema.
    #[error("the configuration does not match its schema")]
    Rejected {
        /// What does not match; at most 20.
        complaints: Vec<Complaint>,
        /// How many more there are.
        more: usize,
    },
}

/// Checks a configuration against a schema.
///
/// # Errors
/// If the schema cannot be used, or the configuration does not match it.
pub fn check(config: &Value, schema: &Value) -> Result<(), Problem> {
    let (schema, draft) = expansion::expand(schema).map_err(Problem::Schema)?;
    let has_few_errors = steps::check(&schema, config)?;
    let validator = build(&schema, draft)?;
    if validator.is_valid(config) {
        return Ok(());
    }
    if !has_few_errors {
        let message =
            "does not match the schema, and is too large to find out where; try parts of it";
        let whole = Complaint {
            path: String::new(),
            message: message.to_owned(),
        };
        return Err(Problem::Rejected {
            complaints: vec![whole],
            more: 0,
        });
    }
    let errors = validator.iter_errors(config);
    let mut all = errors.flat_map(|error| Complaint::all(&error, &schema));
    let complaints = all.by_ref().take(COMPLAINTS).collect();
    Err(Problem::Rejected {
        complaints,
        more: all.count(),
    })
}

fn build(schema: &Value, draft: Draft) -> Result<Validator, Problem> {
    let is_schema = match draft {
        Draft::Draft7 => jsonschema::draft7::meta::is_valid(schema),
        Draft::Draft201909 => jsonschema::draft201909::meta::is_valid(schema),
        _ => jsonschema::draft202012::meta::is_valid(schema),
    };
    // The validator could take unbounded memory for finding out what exactly is wrong.
    if !is_schema {
        return Err(Problem::Schema(
            "it is not valid for its draft of JSON Schema; validate it against the meta-schema to see where"
                .to_owned(),
        ));
    }
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY);
    jsonschema::options()
        .offline()
        .with_draft(draft)
        .with_pattern_options(patterns)
        .should_validate_formats(false)
        .build(schema)
        .map_err(|error| Problem::Schema(error.to_string()))
}

#[cfg(test)]
mod tests;
