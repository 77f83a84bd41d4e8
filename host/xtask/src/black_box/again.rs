//! Runs the tests that failed once more, alone.
//!
//! The black-box tests share two processors with control planes, so one may fail because the machine had no time for it. What fails
//! alone, too, is wrong. What passes then is named, so that somebody looks at it.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::run;

/// More failures than this are no accident.
const FEW: usize = 3;

/// How the last line of a test program begins.
const RESULT: &str = "test result: ";

/// Runs tests by `cargo test`, which must not have arguments for the tests themselves: those come in `arguments`.
///
/// Returns the names of those that passed only alone.
pub(super) fn succeed(tests: impl Fn() -> Command, arguments: &[String]) -> Result<Vec<String>> {
    let mut first = tests();
    first.arg("--").args(arguments);
    let (is_success, output) = shown(&mut first)?;
    if is_success {
        return Ok(Vec::new());
    }
    let Some(failed) = few(&output) else {
        bail!("{} failed", run::display(&first));
    };
    eprintln!("==> once more, alone: {}", failed.join(", "));
    let mut alone = tests();
    let one_by_one = ["--", "--test-threads", "1", "--exact"];
    alone.args(one_by_one).args(&failed);
    let (is_success, output) = shown(&mut alone)?;
    // A name that no test has would pass, too.
    if !is_success || passed(&output) < failed.len() {
        bail!("{} failed", run::display(&alone));
    }
    Ok(failed.into_iter().map(str::to_owned).collect())
}

/// The tests that failed, if they are so few that it may be an accident, and nothing else went wrong.
fn few(output: &str) -> Option<Vec<&str>> {
    let failed = failed(output);
    let is_few = (1..=FEW).contains(&failed.len());
    (is_few && !has_died(output)).then_some(failed)
}

/// Whether a test program ended without a result, as one does that is killed or overflows its stack. Nobody knows what its tests
/// would have said.
fn has_died(output: &str) -> bool {
    let is_start = |line: &&str| {
        line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test"))
    };
    let begun = output.lines().filter(is_start).count();
    let ended = output.lines().filter(|line| line.starts_with(RESULT));
    begun > ended.count()
}

/// How many tests passed, in all test programs.
fn passed(output: &str) -> usize {
    let results = output.lines().filter_map(|line| {
        let counts = line.strip_prefix(RESULT)?;
        let (before, _) = counts.split_once(" passed")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    results.sum()
}

/// Runs a program, shows its standard output, and returns it with whether the program succeeded.
fn shown(command: &mut Command) -> Result<(bool, String)> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start {}", run::display(command)))?;
    let mut output = Vec::new();
    if let Some(mut from) = child.stdout.take() {
        let mut part = [0; 8192];
        loop {
            let read = from.read(&mut part).context("the output of the tests")?;
            let Some(read) = part.get(..read).filter(|read| !read.is_empty()) else {
                break;
            };
            // Whole lines or not: the dots of the tests show that they go on.
            std::io::stdout().write_all(read)?;
            std::io::stdout().flush()?;
            output.extend_from_slice(read);
        }
    }
    let status = child.wait().context("the tests")?;
    Ok((
        status.success(),
        String::from_utf8_lossy(&output).into_owned(),
    ))
}

/// The names of the tests that failed, of all test programs in the output.
fn failed(output: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut section = Vec::new();
    for line in output.lines() {
        if line == "failures:" {
            // There are two such sections: the first has the tests' output, the last their names.
            section.clear();
        } else if line.starts_with("test result: FAILED") {
            all.append(&mut section);
        } else if let Some(name) = line.strip_prefix("    ")
            && !name.contains(' ')
        {
            section.push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests;
