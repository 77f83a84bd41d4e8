//! Runs programs and long steps, and finds the repository and its target directory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use cargo_metadata::{Metadata, MetadataCommand};

/// How often a long step shows that it is still running.
const SIGN_OF_LIFE: Duration = Duration::from_mins(1);

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // host/xtask is two below.
    here.ancestors().nth(2).unwrap_or(here)
}

/// The workspace without its dependencies.
pub(crate) fn workspace() -> Result<Metadata> {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata")
}

/// A file or directory of cargo's target directory.
pub(crate) fn target(name: &str) -> Result<PathBuf> {
    Ok(workspace()?.target_directory.join(name).into_std_path_buf())
}

/// A command for the cargo that started us, run in the root of the repository.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a program and waits for it; its failure is an error.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not start {}", display(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", display(command));
    }
    Ok(())
}

/// Runs a program and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("could not start {}", display(command)))?;
    if !output.status.success() {
        bail!(
            "{} failed ({}): {}",
            display(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command as one would type it.
pub(crate) fn display(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a long step under a name of a word or two, and shows on standard error that it is still running; `what` says what it does and how long that takes.
pub(crate) fn step<T, E>(
    name: &str,
    what: &str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    eprintln!("{name}: {what}");
    let start = Instant::now();
    let (running, ended) = mpsc::channel::<()>();
    let result = thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                eprintln!(
                    "{name}: still running, {} s so far",
                    start.elapsed().as_secs()
                );
            }
        });
        let result = work();
        drop(running);
        result
    });
    let outcome = match &result {
        Ok(_) => "done",
        Err(_) => "FAILED",
    };
    eprintln!("{name}: {outcome} after {} s", start.elapsed().as_secs());
    result
}

/// What a thread returns at its end.
pub(crate) fn joined<T>(name: &str, thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let panicked = |_| Err(anyhow!("the thread of {name} panicked"));
    thread.join().unwrap_or_else(panicked)
}

/// The results of two steps that ran beside each other, or the errors of both.
pub(crate) fn both<A, B>(left: Result<A>, right: Result<B>) -> Result<(A, B)> {
    match (left, right) {
        (Ok(left), Ok(right)) => Ok((left, right)),
        (Err(left), Err(right)) => Err(anyhow!("{left:#}\nerror: {right:#}")),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;
