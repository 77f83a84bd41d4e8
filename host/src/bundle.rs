//! `podloom bundle`: packs a plugin directory into a ConfigMap or an image.

mod config_map;
mod image;
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
use crate::chain::{self, Pods};
use crate::cli::BundleArguments;
use crate::error::CommandError;
use crate::{load, output};

/// A file of the packed bundle.
#[derive(Clone, Debug)]
struct File {
    name: String,
    bytes: Vec<u8>,
    /// Whether the manifest has its `sha256`.
    is_pinned: bool,
    /// The uncompressed file, if this command compressed it.
    original: Option<Original>,
}

/// A file before it was compressed.
#[derive(Clone, Debug)]
struct Original {
    name: String,
    bytes: usize,
}

/// A bundle with its plugins compressed.
#[derive(Clone, Debug)]
struct PackedBundle {
    manifest: File,
    /// The signature of the manifest.
    signature: Option<File>,
    plugins: Vec<File>,
}

impl PackedBundle {
    fn files(&self) -> impl Iterator<Item = &File> {
        std::iter::once(&self.manifest)
            .chain(&self.signature)
            .chain(&self.plugins)
    }

    fn bytes(&self) -> usize {
        self.files().map(|file| file.bytes.len()).sum()
    }
}

/// A ConfigMap that holds the bundle, or a part of it.
#[derive(Debug)]
struct BundleMap {
    name: String,
    /// The size of its values, which the API server limits.
    bytes: usize,
    object: Value,
}

/// Reads, proves, packs and prints.
pub(crate) fn run(arguments: &BundleArguments) -> Result<(), CommandError> {
    let directory = arguments.directory.as_path();
    let bundle = load::bundle(directory)?;
    let engine = load::engine()?;
    let mut chain = load::compile(&engine, directory, &bundle)?;
    chain::prove(directory, &chain, &Pods::NONE)?;
    let packed = pack::pack(directory, &bundle)?;
    if packed.plugins.iter().any(|file| file.original.is_some()) {
        chain = load_again(&engine, &packed)?;
    }
    let as_image = !arguments.oci.is_empty();
    output::print_note(&report::files(&packed, chain.digest(), !as_image));
    if as_image {
        return image::write(arguments, &packed);
    }
    let maps = config_maps(arguments, &packed)?;
    let texts = maps.iter().map(|map| config_map::yaml(&map.object));
    let text = texts.collect::<anyhow::Result<Vec<_>>>()?.join("---\n");
    write(&arguments.output, &text)?;
    output::print_note(&report::next_steps(&packed, &maps, &arguments.output));
    Ok(())
}

/// Loads the compressed plugins too, so that exactly what is printed is known to load.
fn load_again(engine: &Arc<Engine>, packed: &PackedBundle) -> anyhow::Result<Chain> {
    let manifest = std::str::from_utf8(&packed.manifest.bytes)?;
    let plugins = packed.plugins.iter();
    let plugins = plugins.map(|file| (file.name.clone(), file.bytes.clone()));
    let bundle = Bundle::from_parts(manifest, plugins)?;
    Chain::load(engine, &bundle).context("the chain with compressed plugins does not load")
}

/// One ConfigMap, or several with `--split`.
fn config_maps(
    arguments: &BundleArguments,
    packed: &PackedBundle,
) -> Result<Vec<BundleMap>, CommandError> {
    let too_large = |what: &str, bytes: usize, remedy: &str| {
        CommandError::invalid(format!(
            "{}: {what} has {bytes} bytes, and a ConfigMap holds {MAX_BYTES}; {remedy}put the directory into an image volume or a \
             persistent volume",
            arguments.directory.display()
        ))
    };
    let maps = config_map::distribute(packed)
        .map_err(|file| too_large(&format!("{} alone", file.name), file.bytes.len(), ""))?;
    if maps.len() > 1 && !arguments.split {
        let remedy = format!("split it into {} ConfigMaps with --split, or ", maps.len());
        return Err(too_large("the bundle", packed.bytes(), &remedy));
    }
    let maps = (1..).zip(&maps).map(|(number, files)| {
        let name = match number {
            1 => arguments.name.clone(),
            _ => format!("{}-{number}", arguments.name),
        };
        Ok(BundleMap {
            bytes: files.iter().map(|file| file.bytes.len()).sum(),
            object: config_map::object(&name, &arguments.namespace, files)?,
            name,
        })
    });
    Ok(maps.collect::<anyhow::Result<_>>()?)
}

fn write(output: &Path, text: &str) -> Result<(), CommandError> {
    if output == Path::new("-") {
        return output::print(text);
    }
    fs::write(output, text).with_context(|| format!("could not write {}", output.display()))?;
    Ok(())
}
