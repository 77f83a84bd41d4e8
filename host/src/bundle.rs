//! `podloom bundle`: a plugin directory as a ConfigMap.

mod config_map;
mod manifest;
mod pack;
mod report;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use podloom_mutators::{Bundle, Chain, Engine};
use serde_json::Value;

pub(crate) use self::config_map::MAX_BYTES;
pub(crate) use self::pack::gzip;
use crate::cli::BundleArguments;
use crate::refusal::Failure;
use crate::{chain, load, output};

/// A file as it is shipped.
#[derive(Clone, Debug)]
struct File {
    name: String,
    bytes: Vec<u8>,
    /// Whether the manifest holds it to a digest.
    is_pinned: bool,
    /// What it was, if it was packed here.
    packed: Option<Packed>,
}

/// What a file was before it was packed.
#[derive(Clone, Debug)]
struct Packed {
    name: String,
    bytes: usize,
}

/// A bundle as it is shipped.
#[derive(Clone, Debug)]
struct Shipment {
    manifest: File,
    plugins: Vec<File>,
}

impl Shipment {
    fn files(&self) -> impl Iterator<Item = &File> {
        std::iter::once(&self.manifest).chain(&self.plugins)
    }

    fn bytes(&self) -> usize {
        self.files().map(|file| file.bytes.len()).sum()
    }
}

/// A ConfigMap to be written.
#[derive(Debug)]
struct Made {
    name: String,
    /// What counts for the limit.
    bytes: usize,
    object: Value,
}

/// Reads, proves, packs and prints.
pub(crate) fn run(arguments: &BundleArguments) -> Result<(), Failure> {
    let directory = arguments.directory.as_path();
    let bundle = load::bundle(directory)?;
    let engine = load::engine()?;
    let mut chain = load::compile(&engine, directory, &bundle)?;
    chain::prove(directory, &chain)?;
    let shipment = pack::pack(directory, &bundle)?;
    if shipment.plugins.iter().any(|file| file.packed.is_some()) {
        chain = load_again(&engine, &shipment)?;
    }
    output::tell(&report::files(&shipment, chain.digest()));
    let made = make(arguments, &shipment)?;
    let texts = made.iter().map(|made| config_map::yaml(&made.object));
    let text = texts.collect::<anyhow::Result<Vec<_>>>()?.join("---\n");
    write(&arguments.output, &text)?;
    output::tell(&report::what_to_do(&shipment, &made, &arguments.output));
    Ok(())
}

/// What is shipped has been loaded; if plugins were packed, that is what became of them.
fn load_again(engine: &Arc<Engine>, shipment: &Shipment) -> anyhow::Result<Chain> {
    let manifest = std::str::from_utf8(&shipment.manifest.bytes)?;
    let plugins = shipment.plugins.iter();
    let plugins = plugins.map(|file| (file.name.clone(), file.bytes.clone()));
    let bundle = Bundle::from_parts(manifest, plugins)?;
    Chain::load(engine, &bundle).context("the chain with compressed plugins does not load")
}

/// One ConfigMap, or several if there may be several.
fn make(arguments: &BundleArguments, shipment: &Shipment) -> Result<Vec<Made>, Failure> {
    let too_large = |what: &str, bytes: usize, remedy: &str| {
        Failure::refused(format!(
            "{}: {what} has {bytes} bytes, and a ConfigMap holds {MAX_BYTES}; {remedy}carry the directory in an image volume or \
             a persistent volume",
            arguments.directory.display()
        ))
    };
    let maps = config_map::distribute(shipment)
        .map_err(|file| too_large(&format!("{} alone", file.name), file.bytes.len(), ""))?;
    if maps.len() > 1 && !arguments.split {
        let remedy = format!("make {} ConfigMaps of it with --split, or ", maps.len());
        return Err(too_large("the bundle", shipment.bytes(), &remedy));
    }
    let made = (1..).zip(&maps).map(|(number, files)| {
        let name = match number {
            1 => arguments.name.clone(),
            _ => format!("{}-{number}", arguments.name),
        };
        Ok(Made {
            bytes: files.iter().map(|file| file.bytes.len()).sum(),
            object: config_map::object(&name, &arguments.namespace, files)?,
            name,
        })
    });
    Ok(made.collect::<anyhow::Result<_>>()?)
}

fn write(output: &Path, text: &str) -> Result<(), Failure> {
    if output == Path::new("-") {
        return output::print(text);
    }
    fs::write(output, text).with_context(|| format!("could not write {}", output.display()))?;
    Ok(())
}
