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

/// Runs tests by `cargo test`, which must not have arguments for the tests themselves: those come in `arguments`.
pub(super) fn succeed(tests: impl Fn() -> Command, arguments: &[String]) -> Result<()> {
    let mut first = tests();
    first.arg("--").args(arguments);
    let (is_success, output) = shown(&mut first)?;
    if is_success {
        return Ok(());
    }
    let failed = failed(&output);
    if failed.is_empty() || failed.len() > FEW {
        bail!("{} failed", run::display(&first));
    }
    let names = failed.join(", ");
    eprintln!("==> once more, alone: {names}");
    let mut alone = tests();
    let one_by_one = ["--", "--test-threads", "1", "--exact"];
    alone.args(one_by_one).args(&failed);
    run::succeed(&mut alone)?;
    eprintln!("==> failed among the others and passed alone, so look into it: {names}");
    Ok(())
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
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
..a::b --- FAILED

failures:

---- a::b stdout ----
stack backtrace:
   1: core::ops
             at ./src/run.rs:1
    indented

failures:
    a::b
    a::c

test result: FAILED. 1 passed; 2 failed; 0 ignored

running 1 test

failures:
    d

test result: FAILED. 0 passed; 1 failed; 0 ignored
";

    #[test]
    fn finds_the_names_of_what_failed() {
        assert_eq!(failed(OUTPUT), ["a::b", "a::c", "d"]);
        assert_eq!(failed("test result: ok. 3 passed"), [""; 0]);
    }
}
