//! Loads chains and plugin files for commands.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use podloom_image::ImageError;
use podloom_mutators::{
    Bundle, BundleError, Chain, ChainError, ChainWarning, Engine, EngineOptions,
    InstanceAllocation, MANIFEST,
};

use crate::error::{CommandError, Diagnostic, Position};
use crate::output;

/// An engine for a command that ends soon: it allocates memory for a plugin when it is called, not in advance.
pub(crate) fn engine() -> Result<Arc<Engine>, CommandError> {
    engine_with(&EngineOptions {
        instances: InstanceAllocation::OnDemand,
        ..EngineOptions::default()
    })
}

/// An engine for a command that calls plugins on many pods: it allocates as the operator's does, and uses all processors.
pub(crate) fn engine_for_many_pods() -> Result<Arc<Engine>, CommandError> {
    engine_with(&EngineOptions::default())
}

/// An engine that allocates as the operator's does, so that calls take as long as there. It runs one call at a time.
pub(crate) fn engine_as_in_operator() -> Result<Arc<Engine>, CommandError> {
    engine_with(&EngineOptions {
        permits: Some(NonZeroUsize::MIN),
        ..EngineOptions::default()
    })
}

fn engine_with(options: &EngineOptions) -> Result<Arc<Engine>, CommandError> {
    Ok(Engine::new(options).context("could not start the WebAssembly engine")?)
}

/// Reads and compiles the chain of a directory, and prints its warnings. Errors name the directory.
pub(crate) fn chain(directory: &Path) -> Result<Chain, CommandError> {
    let bundle = bundle(directory)?;
    compile(&engine()?, directory, &bundle)
}

/// Reads the bundle of a directory.
pub(crate) fn bundle(directory: &Path) -> Result<Bundle, CommandError> {
    Bundle::read(directory).map_err(|error| unreadable(directory, error))
}

/// Compiles the bundle of a directory, and prints the warnings about its chain.
pub(crate) fn compile(
    engine: &Arc<Engine>,
    directory: &Path,
    bundle: &Bundle,
) -> Result<Chain, CommandError> {
    let (chain, warnings) = compile_with_warnings(engine, directory, bundle)?;
    warnings.iter().for_each(output::warn);
    Ok(chain)
}

/// As [`compile`], but returns the warnings.
pub(crate) fn compile_with_warnings(
    engine: &Arc<Engine>,
    directory: &Path,
    bundle: &Bundle,
) -> Result<(Chain, Vec<Diagnostic>), CommandError> {
    let chain = Chain::load(engine, bundle).map_err(|error| {
        let ChainError {
            plugin,
            file,
            line,
            problem,
        } = error;
        let message = format!("plugin {plugin} ({file}) {problem}");
        CommandError::Invalid(vec![at(directory, line, message)])
    })?;
    let warnings = chain.warnings();
    let warnings = warnings.iter().map(|it| warning(directory, it));
    let warnings = warnings.collect();
    Ok((chain, warnings))
}

/// The file with the manifest of a chain.
pub(crate) fn manifest(directory: &Path) -> String {
    format!("{}/{MANIFEST}", directory.display())
}

/// A message about a line of the manifest.
pub(crate) fn at(directory: &Path, line: u64, message: impl Into<String>) -> Diagnostic {
    Diagnostic::at(Position::of_line(manifest(directory), line), message)
}

/// A warning about a chain.
pub(crate) fn warning(directory: &Path, warning: &ChainWarning) -> Diagnostic {
    let message = format!("plugin {}: {}", warning.plugin, warning.message);
    at(directory, warning.line, message)
}

/// Prints a warning on standard error.
pub(crate) fn warn(message: &str) {
    output::warn(&Diagnostic::new(message));
}

/// A missing directory or an invalid bundle is an error of the input. Any other I/O error is not.
fn unreadable(directory: &Path, error: BundleError) -> CommandError {
    let disk = match &error {
        BundleError::Open { source, .. } | BundleError::Read { source, .. } => Some(source.kind()),
        _ => None,
    };
    let missing = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    match disk {
        Some(kind) if !missing.contains(&kind) => anyhow::Error::new(error).into(),
        Some(_) => CommandError::invalid(format!("{}: no such directory", directory.display())),
        None => {
            let text = error.to_string();
            let name = directory.display().to_string();
            CommandError::invalid(if text.contains(&name) {
                text
            } else {
                format!("{name}: {text}")
            })
        }
    }
}

/// A name that is no image's is an error of the input.
pub(crate) fn image_error(error: ImageError) -> CommandError {
    match error {
        ImageError::Nameless | ImageError::ImageName(_) => {
            CommandError::invalid(format!("--oci: {error}"))
        }
        error => anyhow::Error::new(error).into(),
    }
}

/// More than any plugin may have. Reading stops here: the size check rejects the file then, and a device would never end.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a plugin's file.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                CommandError::invalid(format!("{}: no such file", path.display()))
            } else {
                anyhow::Error::new(error)
                    .context(path.display().to_string())
                    .into()
            }
        })?;
    Ok(bytes)
}
