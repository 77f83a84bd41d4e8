//! `podloom chain`: checks chains before an operator does.

use std::fmt::Write;
use std::path::Path;

use podloom_mutators::{Chain, MANIFEST, Plugin, manifest_schema};
use serde_json::Value;

use crate::cli::CheckArguments;
use crate::output::{QUIET, TITLE, json_text, paint};
use crate::refusal::{Failure, Refusal};
use crate::{explain, load, output};

/// Loads and proves a chain, and shows what each plugin may do.
pub(crate) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let chain = load::chain(&arguments.directory)?;
    prove(&arguments.directory, &chain)?;
    output::print(&describe(&chain))
}

/// Refuses a chain that is not what it says it is.
pub(crate) fn prove(directory: &Path, chain: &Chain) -> Result<(), Failure> {
    let failures = chain.prove();
    if failures.is_empty() {
        return Ok(());
    }
    let directory = directory.display();
    let refusals = failures
        .iter()
        .map(|failure| Refusal::of_input(format!("{directory}/{MANIFEST}: {failure}")))
        .collect();
    Err(Failure::Refused(refusals))
}

/// Prints the JSON Schema of the manifest.
pub(crate) fn schema() -> Result<(), Failure> {
    output::print(&json_text(&manifest_schema())?)
}

fn describe(chain: &Chain) -> String {
    let mut text = String::new();
    for (number, plugin) in (1..).zip(chain.plugins()) {
        text.push_str(&describe_plugin(number, plugin));
    }
    let plugins = explain::count(chain.plugins().len(), "plugin");
    let _infallible = writeln!(
        text,
        "{plugins}, deterministic and as idempotent as they say\nchain {}",
        chain.digest()
    );
    text
}

fn describe_plugin(number: usize, plugin: &Plugin) -> String {
    let description = &plugin.description;
    let title = format!("{number}. {} {}", plugin.name, description.version);
    let mut text = format!(
        "{}  {}\n",
        paint(TITLE, &title),
        paint(QUIET, &description.summary)
    );
    let mut row = |name: &str, value: &str| {
        let _infallible = writeln!(text, "   {name:<14} {value}");
    };
    row(
        "file",
        &format!("{} ({})", plugin.file, size(plugin.shipped_bytes())),
    );
    row("sha256", &plugin.sha256);
    row("may write", &paths(&plugin.allow));
    row("needs to write", &paths(&description.writes));
    row("may read", &paths(&readable(plugin)));
    row("needs to read", &paths(&description.reads));
    row("match", &matches(plugin));
    row("failurePolicy", plugin.failure_policy.as_str());
    row("idempotent", if plugin.idempotent { "yes" } else { "no" });
    row(
        "limits",
        &format!(
            "{} of memory, {} ms a call",
            size(plugin.limits.memory),
            plugin.limits.timeout.as_millis()
        ),
    );
    text
}

/// What a plugin may read: what is granted for that, and what it may write.
fn readable(plugin: &Plugin) -> Vec<String> {
    let mut paths = plugin.read.clone();
    let others = plugin
        .allow
        .iter()
        .filter(|path| !plugin.read.contains(path));
    paths.extend(others.cloned());
    paths
}

/// Which pods a plugin sees, in one line.
fn matches(plugin: &Plugin) -> String {
    match plugin.matches() {
        Value::Object(fields) if !fields.is_empty() => Value::Object(fields).to_string(),
        _ => "every pod".to_owned(),
    }
}

/// Paths in a line each, under one another.
pub(crate) fn paths(paths: &[String]) -> String {
    let shown: Vec<&str> = paths
        .iter()
        .map(|path| podloom_pod_path::shown(path))
        .collect();
    match shown.as_slice() {
        [] => "nothing".to_owned(),
        shown => shown.join(&format!("\n   {:<14} ", "")),
    }
}

/// Bytes for people.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}
