//! Runs a plugin natively, in `cargo test`, on a pod in memory.
//!
//! The pod is behind the code that the host uses, so paths, types and grants are checked as they will be: the plugin gets what
//! its [`needs`](crate::Mutator::needs) ask for and nothing more, an access outside fails. If the plugin has a schema,
//! its configuration is checked against it, as the host does.
//!
//! ```
//! use podloom_plugin_sdk::prelude::*;
//! use podloom_plugin_sdk::serde_json::json;
//! use podloom_plugin_sdk::testing::{self, Submitted};
//!
//! # struct Team;
//! # impl Mutator for Team {
//! #     type Config = NoConfig;
//! #     const NAME: &str = "team";
//! #     const VERSION: &str = "0.1.0";
//! #     const SUMMARY: &str = "Copies the namespace's team label to its pods";
//! #     fn needs(_: &NoConfig) -> Needs {
//! #         Needs::default().write("/metadata/labels/team")
//! #     }
//! #     fn mutate(_: &NoConfig, request: &Request, pod: &Pod) -> Result<(), Rejection> {
//! #         let Some(team) = request.namespace_label("team") else {
//! #             return Err(Rejection::Denied("the namespace has no label team: set one".to_owned()));
//! #         };
//! #         Ok(pod.labels().set("team", &team)?)
//! #     }
//! # }
//! # podloom_plugin_sdk::mutator!(Team);
//! let submitted = Submitted {
//!     namespace_labels: [("team".to_owned(), "web".to_owned())].into(),
//!     ..Submitted::default()
//! };
//! let pod = json!({"metadata": {"name": "app"}, "spec": {"containers": [{"name": "app"}]}});
//!
//! let run = testing::run::<Team>(&json!({}), &submitted, &pod);
//!
//! assert_eq!(run.result, Ok(()));
//! assert_eq!(run.pod["metadata"]["labels"]["team"], "web");
//! testing::check_laws::<Team>(&json!({}), &submitted, &pod);
//! ```

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use podloom_config_schema::Problem;
pub use podloom_pod_path::Write;
use podloom_pod_path::{Access, Grants, Transaction};
use schemars::generate::SchemaSettings;
use schemars::transform::ReplaceUnevaluatedProperties;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

pub use crate::native::Submitted;
use crate::native::{Handle, SAID};
use crate::{Level, Mutator, Needs, Operation, Pod, Rejection, Request, json};

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// The pod afterwards; as it was before if the plugin rejected it.
    pub pod: Value,
    /// What the plugin returned.
    pub result: Result<(), Rejection>,
    /// What it wrote, in order; empty if it rejected the pod.
    pub writes: Vec<Write>,
    /// Its warnings.
    pub warnings: Vec<String>,
    /// Its notes.
    pub notes: Vec<String>,
    /// Its log lines.
    pub logs: Vec<(Level, String)>,
}

impl Run {
    /// Returns what the plugin told the user, in the order in which the host shows it: the warnings, then the notes.
    #[must_use]
    pub fn remarks(&self) -> Vec<&str> {
        let remarks = self.warnings.iter().chain(&self.notes);
        remarks.map(String::as_str).collect()
    }
}

/// Reads a configuration as the host and the built plugin do: the host checks it against the plugin's schema, if there is one,
/// then the plugin parses it and validates it.
///
/// # Errors
///
/// Everything that is wrong with it, a sentence each: what the schema refuses, or else what the plugin refuses.
pub fn configure<M: Exported>(config: &Value) -> Result<M::Config, Vec<String>> {
    let text = config.to_string();
    check::<M>(config, &text)?;
    let config = json::from_str(&text).map_err(|error| vec![error.to_string()])?;
    let errors = M::validate(&config);
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(errors)
    }
}

/// Where a plugin may write; none if that is everywhere.
fn places(submitted: &Submitted) -> Option<Arc<[String]>> {
    let operation = match submitted.operation {
        Operation::Create => podloom_pod_path::Operation::Create,
        Operation::Update => podloom_pod_path::Operation::Update,
        Operation::Resize => podloom_pod_path::Operation::Resize,
        Operation::EphemeralContainers => podloom_pod_path::Operation::EphemeralContainers,
    };
    operation.places(&submitted.changes)
}

/// Runs a plugin on a pod.
///
/// # Panics
///
/// If the configuration is invalid, the needs are no valid grants, or the plugin exceeds a limit of the host.
#[must_use]
#[track_caller]
pub fn run<M: Exported>(config: &Value, submitted: &Submitted, pod: &Value) -> Run {
    let mut config = match configure::<M>(config) {
        Ok(config) => config,
        Err(errors) => fail(&format!(
            "the configuration is invalid: {}",
            errors.join("; ")
        )),
    };
    let access = match access(&M::needs(&config)) {
        Ok(access) => Arc::new(access),
        Err(message) => fail(&format!(
            "the plugin's needs are no valid grants: {message}"
        )),
    };
    M::prepare(&mut config);
    let request = Request {
        inner: submitted.clone(),
    };
    let transaction = Transaction::begin(pod.clone(), access, submitted.selector.as_slice().into());
    let transaction = match places(submitted) {
        Some(places) => transaction.within(places),
        None => transaction,
    };
    let pod = Pod {
        handle: Handle(RefCell::new(transaction)),
    };

    SAID.take();
    let result = M::mutate(&config, &request, &pod);
    let (warnings, notes, logs) = SAID.take();

    let transaction = pod.handle.0.into_inner();
    let (pod, writes) = match result {
        Ok(()) => transaction.commit(),
        Err(_) => (transaction.rollback(), Vec::new()),
    };
    Run {
        pod,
        result,
        writes,
        warnings,
        notes,
        logs,
    }
}

/// Checks the laws that the host proves before it uses a plugin: two runs agree, and a second pass writes nothing.
///
/// # Panics
///
/// If one of them does not hold, naming it and the paths; or as [`run`] does.
#[track_caller]
pub fn check_laws<M: Exported>(config: &Value, submitted: &Submitted, pod: &Value) {
    let first = run::<M>(config, submitted, pod);
    let again = run::<M>(config, submitted, pod);
    if first.pod != again.pod || first.result != again.result {
        fail("not deterministic: two runs on the same pod differ");
    }
    if first.result.is_err() {
        return;
    }
    let second = run::<M>(config, submitted, &first.pod);
    if let Err(rejection) = second.result {
        fail(&format!(
            "not idempotent: a second pass is rejected: {rejection}"
        ));
    }
    let paths: Vec<&str> = second
        .writes
        .iter()
        .map(|write| write.path.as_str())
        .collect();
    if !paths.is_empty() {
        fail(&format!(
            "not idempotent: a second pass writes {}",
            paths.join(", ")
        ));
    }
}

/// Says what [`check_config_schema`] does: `check` fails without writing, `write` writes and passes. `podloom plugin` sets it.
const MODE: &str = "PODLOOM_CONFIG_SCHEMA";

/// Compares a file with the schema of a configuration type, which has the name of its crate as `$id`;
/// [`mutator!`](crate::mutator!) adds a test that calls it.
///
/// # Panics
///
/// If they differ. Unless the environment variable `CI` is set, it writes the file first, so that the next run passes.
#[track_caller]
pub fn check_config_schema<C: JsonSchema>(file: &str, package: &str) {
    let mode = std::env::var(MODE).unwrap_or_default();
    let is_ci = std::env::var_os("CI").is_some();
    let mut schema = schema_of::<C>();
    let id = format!("urn:podloom:config:{package}");
    schema.insert("$id".to_owned(), id.into());
    match compare_schema(&schema, file, mode == "write" || mode != "check" && !is_ci) {
        SchemaFile::Written if mode == "write" => {}
        SchemaFile::Fresh => {}
        SchemaFile::Written => fail(&format!(
            "{file} was old and has been written anew: run again and commit it"
        )),
        SchemaFile::Old => fail(&format!("{file} is old: run `cargo test` and commit it")),
    }
}

/// What a schema's file was found to be.
#[derive(Debug, PartialEq, Eq)]
enum SchemaFile {
    Fresh,
    Old,
    Written,
}

#[track_caller]
fn compare_schema(schema: &Schema, file: &str, write: bool) -> SchemaFile {
    let expected = match serde_json::to_string_pretty(schema) {
        Ok(text) => text + "\n",
        Err(error) => fail(&format!("the schema is no JSON: {error}")),
    };
    if std::fs::read_to_string(file).is_ok_and(|found| found == expected) {
        return SchemaFile::Fresh;
    }
    if !write {
        return SchemaFile::Old;
    }
    match std::fs::write(file, expected) {
        Ok(()) => SchemaFile::Written,
        Err(error) => fail(&format!("{file} is old and cannot be written: {error}")),
    }
}

/// Grants what the plugin needs, and nothing more.
fn access(needs: &Needs) -> Result<Access, podloom_pod_path::GrantError> {
    Ok(Access::new(
        Grants::parse(&needs.reads)?,
        Grants::parse_writes(&needs.writes)?,
    ))
}

#[track_caller]
#[expect(clippy::panic, reason = "this module is for tests")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}

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
fn check<M: Exported>(config: &Value, text: &str) -> Result<(), Vec<String>> {
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

#[cfg(test)]
mod tests;
