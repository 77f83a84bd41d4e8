//! Commands that end, and conditions that come true.

use std::io;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for a condition. A start takes seconds; busy machines take longer.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It did not start.
    #[error("could not start {command}")]
    Start {
        /// As one would type it.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It ended with an error.
    #[error("{command} failed: {stderr}")]
    Failed {
        /// As one would type it.
        command: String,
        /// What it wrote to standard error.
        stderr: String,
    },
}

/// What a command prints, if it succeeds.
///
/// # Errors
///
/// Fails if it does not start, or ends with an error; the message has what it wrote to standard error.
pub fn output(command: &mut Command) -> Result<String, CommandError> {
    let output = command.output();
    finish(command, output)
}

fn finish(command: &Command, output: io::Result<Output>) -> Result<String, CommandError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let command = words.join(" ");
    match output {
        Err(source) => Err(CommandError::Start { command, source }),
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(CommandError::Failed {
            command,
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

/// Asks again until there is an answer or an error; `None` after the deadline.
///
/// # Errors
///
/// Fails as soon as asking fails.
pub fn until<T, E>(
    deadline: Instant,
    mut ask: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(50));
    }
}
