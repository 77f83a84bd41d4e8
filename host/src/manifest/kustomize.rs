//! Builds the kustomizations that `-k` names, with the kubectl or kustomize that is installed.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::Context;

use super::source::{self, Source};
use crate::error::{CommandError, Diagnostic};

/// The programs that can build a kustomization, in the order in which they are tried, and their arguments.
const PROGRAMS: [(&str, &[&str]); 2] = [("kubectl", &["kustomize"]), ("kustomize", &["build"])];

/// How much of a program's messages is shown.
const MOST_SHOWN: u64 = 64 * 1024;

/// A kustomization, built.
pub(super) struct Built {
    pub(super) source: Source,
    /// What the program wrote to its standard error, though it succeeded.
    pub(super) warning: Option<Diagnostic>,
}

/// Builds one kustomization.
pub(super) fn build(directory: &str) -> Result<Built, CommandError> {
    if !Path::new(directory).is_dir() {
        return Err(CommandError::invalid(format!(
            "{directory}: -k takes a directory with a kustomization.yaml"
        )));
    }
    for (program, arguments) in PROGRAMS {
        let mut command = Command::new(program);
        // A directory whose name starts with a dash is not an option.
        command.args(arguments).args(["--", directory]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => {
                let name = format!("{program} {} {directory}", arguments.join(" "));
                return output(&name, child);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let error = anyhow::Error::new(error).context(format!("could not run {program}"));
                return Err(error.into());
            }
        }
    }
    Err(CommandError::invalid(format!(
        "{directory}: -k needs kubectl or kustomize, and neither is in PATH: install one, or build the kustomization elsewhere and pipe it to -f -"
    )))
}

fn output(name: &str, mut child: Child) -> Result<Built, CommandError> {
    // Both pipes are read at the same time, or the program could wait for one of them forever.
    let messages = child.stderr.take();
    let messages = thread::spawn(move || {
        let mut text = Vec::new();
        let Some(mut pipe) = messages else {
            return text;
        };
        let _cut = pipe.by_ref().take(MOST_SHOWN).read_to_end(&mut text);
        let _rest = std::io::copy(&mut pipe, &mut std::io::sink());
        text
    });
    let pipe = child.stdout.take().context("the program has no output")?;
    let source = source::read_text(name, pipe);
    // A program whose output is too large is not read to its end, so it must not wait for a reader.
    if source.is_err() {
        let _ended = child.kill();
    }
    let status = child.wait().with_context(|| name.to_owned())?;
    let messages = messages.join().unwrap_or_default();
    let messages = String::from_utf8_lossy(&messages);
    let messages = messages.trim_end();
    let source = source.map_err(|error| CommandError::Invalid(vec![error]))?;
    if !status.success() {
        return Err(CommandError::invalid(format!(
            "{name}: {status}\n{messages}"
        )));
    }
    let warning = Some(messages).filter(|messages| !messages.is_empty());
    let warning = warning.map(|messages| Diagnostic::new(format!("{name}:\n{messages}")));
    Ok(Built { source, warning })
}
