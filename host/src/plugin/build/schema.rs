//! Finds out whether the file with the schema of a configuration is old, and rewrites it.
//!
//! The schema is made from the type of the configuration, which only the crate itself can do: the macro `mutator!` adds a test to
//! it that compares the two. It is run here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::cargo;
use crate::error::CommandError;
use crate::output::{WARNING, paint, print_note};

/// The test that `mutator!` adds.
const TEST: &str = "config_schema_is_fresh";
/// Tells that test what to do with an old file: `check` or `write`.
const MODE: &str = "PODLOOM_CONFIG_SCHEMA";

/// Refuses an old schema: the operator would check configurations against it.
pub(super) fn check(directory: &Path) -> Result<(), CommandError> {
    let Some(tests) = tests(directory)? else {
        return Ok(());
    };
    if is_fresh(directory, &tests)? {
        return Ok(());
    }
    Err(CommandError::invalid(format!(
        "{}: the schema of the configuration is old: the type of the configuration has changed since the file was written; \
         write it with `{}`, which also rewrites the expected results of the cases, and commit it",
        directory.display(),
        update(directory)
    )))
}

/// Rewrites an old schema.
pub(super) fn write(directory: &Path) -> Result<(), CommandError> {
    let Some(tests) = tests(directory)? else {
        return Ok(());
    };
    if is_fresh(directory, &tests)? {
        return Ok(());
    }
    if !run(directory, &tests, "write")? {
        return Err(CommandError::invalid(format!(
            "{}: could not write the schema of the configuration; `cargo test {TEST}` shows why",
            directory.display()
        )));
    }
    print_note("the schema of the configuration was old and has been rewritten; commit it\n");
    Ok(())
}

fn update(directory: &Path) -> String {
    let directory = directory.strip_prefix(".").unwrap_or(directory);
    let separator = if directory.as_os_str().is_empty() {
        ""
    } else {
        " "
    };
    format!(
        "podloom plugin test{separator}{} --update",
        directory.display()
    )
}

/// The crate's native tests; none, with a note, if they do not compile: that must not keep an author from building.
fn tests(directory: &Path) -> Result<Option<PathBuf>, CommandError> {
    let tests = cargo::tests(directory)?;
    if tests.is_none() {
        print_note(&format!(
            "{} the native tests do not compile, so it was not checked whether the schema of the configuration is old\n",
            paint(WARNING, "warning:")
        ));
    }
    Ok(tests)
}

fn is_fresh(directory: &Path, tests: &Path) -> anyhow::Result<bool> {
    run(directory, tests, "check")
}

/// Runs the test; a crate without one passes.
fn run(directory: &Path, tests: &Path, mode: &str) -> anyhow::Result<bool> {
    let output = Command::new(tests)
        .arg(TEST)
        .env(MODE, mode)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .with_context(|| tests.display().to_string())?;
    Ok(output.status.success())
}
