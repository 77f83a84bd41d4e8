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

mod schema;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use podloom_pod_path::Write;
use podloom_pod_path::{Access, Grants, Transaction};
use schemars::JsonSchema;
use serde_json::Value;

pub use self::schema::{Exported, schema_of};
use crate::native::{self, Handle};
use crate::{Level, Needs, Pod, Rejection, Request, json};

/// For whom the pod is mutated; by default a `Pod` in the namespace `default`.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The submitted object's kind.
    pub kind: String,
    /// The submitted object's name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The submitted object's labels.
    pub labels: BTreeMap<String, String>,
    /// The submitted object's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The namespace's labels.
    pub namespace_labels: BTreeMap<String, String>,
    /// The namespace's annotations.
    pub namespace_annotations: BTreeMap<String, String>,
    /// Whether the result will be thrown away.
    pub dry_run: bool,
    /// Keys of the labels that the workload's selector matches: no plugin may change them.
    pub selector: Vec<String>,
}

impl Default for Submitted {
    fn default() -> Self {
        Self {
            kind: "Pod".to_owned(),
            name: String::new(),
            namespace: "default".to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            namespace_labels: BTreeMap::new(),
            namespace_annotations: BTreeMap::new(),
            dry_run: false,
            selector: Vec::new(),
        }
    }
}

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
    schema::check::<M>(config, &text)?;
    let config = json::from_str(&text).map_err(|error| vec![error.to_string()])?;
    let errors = M::validate(&config);
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(errors)
    }
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
        inner: native::Request {
            kind: submitted.kind.clone(),
            name: submitted.name.clone(),
            namespace: submitted.namespace.clone(),
            labels: submitted.labels.clone(),
            annotations: submitted.annotations.clone(),
            namespace_labels: submitted.namespace_labels.clone(),
            namespace_annotations: submitted.namespace_annotations.clone(),
            dry_run: submitted.dry_run,
        },
    };
    let transaction = Transaction::begin(pod.clone(), access, submitted.selector.as_slice().into());
    let pod = Pod {
        handle: Handle(RefCell::new(transaction)),
    };

    native::take_said();
    let result = M::mutate(&config, &request, &pod);
    let said = native::take_said();

    let transaction = pod.handle.0.into_inner();
    let (pod, writes) = match result {
        Ok(()) => transaction.commit(),
        Err(_) => (transaction.rollback(), Vec::new()),
    };
    Run {
        pod,
        result,
        writes,
        warnings: said.warnings,
        notes: said.notes,
        logs: said.logs,
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

/// Compares a file with the schema of a configuration type; [`mutator!`](crate::mutator!) adds a test that calls it.
///
/// # Panics
///
/// If they differ. Unless the environment variable `CI` is set, it writes the file first, so that the next run passes.
#[track_caller]
pub fn check_config_schema<C: JsonSchema>(file: &str) {
    let mode = std::env::var(MODE).unwrap_or_default();
    let is_ci = std::env::var_os("CI").is_some();
    match compare_config_schema::<C>(file, mode == "write" || mode != "check" && !is_ci) {
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
fn compare_config_schema<C: JsonSchema>(file: &str, write: bool) -> SchemaFile {
    let expected = match serde_json::to_string_pretty(&schema_of::<C>()) {
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

#[cfg(test)]
mod tests;
