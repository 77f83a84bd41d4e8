//! Loads chains and plugin files for commands.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use podloom_mutators::{Bundle, BundleError, Chain, Engine, EngineOptions, InstanceAllocation};
use serde_json::{Map, Value};

use crate::manifest::{self, Depth};
use crate::refusal::{Failure, Refusal};

/// The engine of a command that ends soon: it makes room for a plugin when one is called, not beforehand.
pub(crate) fn engine() -> Result<Arc<Engine>, Failure> {
    let options = EngineOptions {
        instances: InstanceAllocation::OnDemand,
        ..EngineOptions::default()
    };
    Ok(Engine::new(&options).context("could not start the WebAssembly engine")?)
}

/// An engine that makes room as the operator's does, so that calls take as long as there; for one call at a time.
pub(crate) fn engine_of_an_operator() -> Result<Arc<Engine>, Failure> {
    let options = EngineOptions {
        permits: Some(NonZeroUsize::MIN),
        instances: InstanceAllocation::Pooled,
    };
    Ok(Engine::new(&options).context("could not start the WebAssembly engine")?)
}

/// Reads and compiles the chain of a directory; says which directory if it is broken.
pub(crate) fn chain(directory: &Path) -> Result<Chain, Failure> {
    let bundle = bundle(directory)?;
    compile(&engine()?, directory, &bundle)
}

/// Reads the bundle of a directory.
pub(crate) fn bundle(directory: &Path) -> Result<Bundle, Failure> {
    Bundle::read(directory).map_err(|error| unreadable(directory, error))
}

/// Compiles the bundle of a directory.
pub(crate) fn compile(
    engine: &Arc<Engine>,
    directory: &Path,
    bundle: &Bundle,
) -> Result<Chain, Failure> {
    Chain::load(engine, bundle)
        .map_err(|error| Failure::refused(format!("{}: {error}", directory.display())))
}

/// A directory that is not there, or is no bundle, is the user's to mend; a disk that cannot be read is not.
fn unreadable(directory: &Path, error: BundleError) -> Failure {
    let disk = match &error {
        BundleError::Open { source, .. }
        | BundleError::ReadManifest { source, .. }
        | BundleError::ReadFile { source, .. } => Some(source.kind()),
        _ => None,
    };
    let missing = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    match disk {
        Some(kind) if !missing.contains(&kind) => anyhow::Error::new(error).into(),
        Some(_) => Failure::refused(format!("{}: no such directory", directory.display())),
        None => {
            let text = error.to_string();
            let name = directory.display().to_string();
            Failure::refused(if text.contains(&name) {
                text
            } else {
                format!("{name}: {text}")
            })
        }
    }
}

/// More than any plugin may have; what is longer is refused by its size, and a device never ends.
const MOST_BYTES: u64 = 64 << 20;

/// A plugin's file.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                Failure::refused(format!("{}: no such file", path.display()))
            } else {
                anyhow::Error::new(error)
                    .context(path.display().to_string())
                    .into()
            }
        })?;
    Ok(bytes)
}

/// A plugin's configuration from a file: one YAML or JSON document, a map.
pub(crate) fn config(path: &Path) -> Result<Map<String, Value>, Failure> {
    let name = path.display().to_string();
    match manifest::read_values(&name, Depth::Flat)?.as_slice() {
        [Value::Object(fields)] => Ok(fields.clone()),
        [_] => Err(Failure::Refused(vec![Refusal::of_input(format!(
            "{name}: a plugin's configuration is a map"
        ))])),
        several => Err(Failure::refused(format!(
            "{name}: a plugin's configuration is one document, and here are {}",
            several.len()
        ))),
    }
}
