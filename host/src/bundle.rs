//! `podloom bundle`: packs a plugin directory into a ConfigMap or an image.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use podloom_api::names::annotation::LAST_APPLIED;
use podloom_image::{Config, Image, Layer};
use podloom_mutators::{Bundle, Chain, Engine, MANIFEST, SIGNATURE, sha256};
use serde_json::{Value, json};

use crate::chain::Pods;
use crate::chain::edit::{NewFile, NewFiles, pinned_files, rename_files};
use crate::cli::BundleArguments;
use crate::error::{CommandError, Diagnostic};
use crate::explain::count;
use crate::output::{QUIET, TITLE, WARNING, paint};
use crate::{chain, load, output};

/// A file of the packed bundle.
#[derive(Clone, Debug)]
struct File {
    name: String,
    bytes: Vec<u8>,
    /// Whether the manifest has its `sha256`.
    is_pinned: bool,
    /// The name and the size of the uncompressed file, if this command compressed it.
    original: Option<(String, usize)>,
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
    chain::prove(directory, &chain, &Pods::NONE, &mut |_, _, _, _| {})?;
    let packed = pack(directory, &bundle)?;
    if packed.plugins.iter().any(|file| file.original.is_some()) {
        chain = load_again(&engine, &packed)?;
    }
    let as_image = !arguments.oci.is_empty();
    output::print_note(&files(&packed, chain.digest(), !as_image));
    if as_image {
        return write_image(arguments, &packed);
    }
    let maps = config_maps(arguments, &packed)?;
    let texts = maps.iter().map(|map| yaml(&map.object));
    let text = texts.collect::<anyhow::Result<Vec<_>>>()?.join("---\n");
    write(&arguments.output, &text)?;
    output::print_note(&next_steps(&packed, &maps, &arguments.output));
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
    let maps = distribute(packed)
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
            object: object(&name, &arguments.namespace, files)?,
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

// Compresses the plugins that are not compressed yet.

const GZIP: &[u8] = &[0x1f, 0x8b];

/// Compresses the plugins of a bundle, and updates their names and digests in its manifest.
fn pack(directory: &Path, bundle: &Bundle) -> Result<PackedBundle, CommandError> {
    let text = std::str::from_utf8(bundle.manifest()).context("the manifest is not UTF-8")?;
    let pinned = pinned_files(text);
    let mut plugins = BTreeMap::new();
    let mut changes = NewFiles::new();
    let mut errors = Vec::new();
    for (name, bytes) in bundle.files() {
        let is_pinned = pinned.iter().any(|file| file == name);
        let file = pack_file(name, bytes, is_pinned)?;
        if file.original.is_some() {
            let new = NewFile {
                name: file.name.clone(),
                sha256: sha256(&file.bytes),
            };
            changes.insert(name.to_owned(), new);
        }
        if let Some(other) = plugins.insert(file.name.clone(), file) {
            errors.push(Diagnostic::new(taken(directory, &other.name)));
        }
    }
    if !errors.is_empty() {
        return Err(CommandError::Invalid(errors));
    }
    let names: Vec<&str> = changes.keys().map(String::as_str).collect();
    let names = names.join(", ");
    if bundle.signature().is_some() && !changes.is_empty() {
        return Err(CommandError::invalid(signed(directory, &names)));
    }
    let text = rename_files(text, &changes)
        .ok_or_else(|| CommandError::invalid(not_in_place(directory, &names)))?;
    let whole = |name: &str, bytes: Vec<u8>| File {
        name: name.to_owned(),
        bytes,
        is_pinned: false,
        original: None,
    };
    let signature = bundle.signature();
    Ok(PackedBundle {
        manifest: whole(MANIFEST, text.into_bytes()),
        signature: signature.map(|bytes| whole(SIGNATURE, bytes.to_owned())),
        plugins: plugins.into_values().collect(),
    })
}

/// The content decides whether a file is compressed, not the name. The loader does the same.
fn pack_file(name: &str, bytes: &[u8], is_pinned: bool) -> anyhow::Result<File> {
    let kept = File {
        name: name.to_owned(),
        bytes: bytes.to_owned(),
        is_pinned,
        original: None,
    };
    if bytes.starts_with(GZIP) {
        return Ok(kept);
    }
    let smaller = gzip(bytes).with_context(|| format!("could not compress {name}"))?;
    if smaller.len() >= bytes.len() {
        return Ok(kept);
    }
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    Ok(File {
        name: format!("{stem}.gz"),
        bytes: smaller,
        is_pinned,
        original: Some((kept.name, bytes.len())),
    })
}

/// Compresses bytes. The result contains neither name nor time, so equal input gives equal output.
pub(crate) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    let options = zopfli::Options::default();
    zopfli::compress(options, zopfli::Format::Gzip, bytes, &mut packed)?;
    Ok(packed)
}

fn taken(directory: &Path, name: &str) -> String {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    format!(
        "{}/{MANIFEST}: {plain} would be compressed to {name}, but another plugin has a file of that name; rename one of them",
        directory.display()
    )
}

fn signed(directory: &Path, names: &str) -> String {
    format!(
        "{}/{MANIFEST}: it is signed, and compressing {names} would change it; compress the files yourself, for example with gzip -9, \
         write their names and digests into {MANIFEST}, and sign it again",
        directory.display()
    )
}

fn not_in_place(directory: &Path, names: &str) -> String {
    format!(
        "{}/{MANIFEST}: cannot write the new names and digests of the compressed files of {names}; write `file` and `sha256` as plain \
         values without anchors, or compress the files yourself",
        directory.display()
    )
}

// A bundle as an image, for an image volume.

/// The image has no programs, so this is only a word that the format wants: every node mounts it.
const ARCHITECTURE: &str = "amd64";

/// Writes the image: the files of the bundle in its root.
fn write_image(arguments: &BundleArguments, packed: &PackedBundle) -> Result<(), CommandError> {
    if arguments.output == Path::new("-") {
        return Err(CommandError::invalid(
            "an image is not written to standard output: name a file with -o, for example -o podloom-plugins.tar",
        ));
    }
    let mut layer = Layer::default();
    for file in packed.files() {
        layer
            .add_bytes(file.bytes.clone(), &file.name)
            .map_err(load::image_error)?;
    }
    let image = Image {
        names: arguments.oci.clone(),
        architecture: ARCHITECTURE.to_owned(),
        config: Config::default(),
        layer,
    };
    let written = podloom_image::write(&image, &arguments.output).map_err(load::image_error)?;
    output::print_note(&format!(
        "image {}\n{}\n",
        arguments.oci.join(", "),
        written.digest
    ));
    Ok(())
}

// What `podloom bundle` prints on standard error: sizes, and what to do next.

/// The size of each file and of the bundle, and perhaps how much of a ConfigMap that is.
fn files(packed: &PackedBundle, digest: &str, for_config_map: bool) -> String {
    let mut text = String::new();
    for file in packed.files() {
        let _infallible = writeln!(
            text,
            "{:>9}  {}{}",
            file.bytes.len(),
            file.name,
            paint(QUIET, &original(file))
        );
    }
    let bytes = packed.bytes();
    let sum = paint(TITLE, &format!("{bytes:>9}  bytes"));
    let share = if for_config_map {
        let percent = (bytes * 100).div_ceil(MAX_BYTES);
        format!(", {percent} % of the {MAX_BYTES} that a ConfigMap holds")
    } else {
        String::new()
    };
    let _infallible = writeln!(text, "{sum}{share}\nchain {digest}");
    text
}

fn original(file: &File) -> String {
    let Some((name, bytes)) = &file.original else {
        return String::new();
    };
    let pin = if file.is_pinned {
        "; its sha256 in chain.yaml is updated to that of the compressed file"
    } else {
        ""
    };
    format!("  from {name}, {bytes} bytes{pin}")
}

/// What the user has to know to apply the ConfigMaps.
fn next_steps(packed: &PackedBundle, maps: &[BundleMap], output: &Path) -> String {
    let mut text = String::new();
    if maps.len() > 1 {
        text.push_str(&of_several(packed, maps));
    }
    let largest = maps.iter().map(|map| annotation_bytes(&map.object)).max();
    let largest = largest.unwrap_or_default();
    if largest > MAX_ANNOTATIONS {
        let _infallible = writeln!(
            text,
            "{} plain kubectl apply would fail: it stores a copy of {largest} bytes in an annotation, and the limit is \
             {MAX_ANNOTATIONS}; use one of these:\n  kubectl apply --server-side -f {file}\n  kubectl create -f {file}\n  kubectl replace -f {file}",
            paint(WARNING, "note:"),
            file = output.display()
        );
    }
    text
}

/// Several ConfigMaps are never updated at the same moment.
fn of_several(packed: &PackedBundle, maps: &[BundleMap]) -> String {
    let sizes = maps
        .iter()
        .map(|map| format!("{} with {} bytes", map.name, map.bytes));
    let mut text = format!(
        "{} for one projected volume: {}\n",
        count(maps.len(), "ConfigMap"),
        sizes.collect::<Vec<_>>().join(", ")
    );
    let unpinned = packed.plugins.iter().filter(|file| !file.is_pinned);
    let unpinned: Vec<&str> = unpinned.map(|file| file.name.as_str()).collect();
    if !unpinned.is_empty() {
        let these = match unpinned.as_slice() {
            [_] => "this plugin",
            _ => "each of these plugins",
        };
        let _infallible = writeln!(
            text,
            "{} an update changes them one after the other, so old and new plugins may be mixed for a moment; the operator rejects \
             such a mixture only if {these} has its sha256 in chain.yaml: {}",
            paint(WARNING, "note:"),
            unpinned.join(", ")
        );
    }
    text
}

// ConfigMaps: their size limits, and how kubectl stores them.

/// The API server's limit for all values of a ConfigMap together, decoded. Binary data is stored without base64, so such a ConfigMap
/// also fits into etcd's default limit of 1.5 MiB.
pub(crate) const MAX_BYTES: usize = 1_048_576;

/// The API server's limit for all annotations of an object together.
const MAX_ANNOTATIONS: usize = 262_144;

/// Distributes files over as few ConfigMaps as first-fit finds.
///
/// # Errors
///
/// Returns a file that is too large for any ConfigMap.
fn distribute(packed: &PackedBundle) -> Result<Vec<Vec<&File>>, &File> {
    let mut maps: Vec<(usize, Vec<&File>)> = Vec::new();
    for file in packed.files() {
        let bytes = file.bytes.len();
        if bytes > MAX_BYTES {
            return Err(file);
        }
        let roomy = maps.iter_mut().find(|(used, _)| used + bytes <= MAX_BYTES);
        match roomy {
            Some((used, held)) => {
                *used += bytes;
                held.push(file);
            }
            None => maps.push((bytes, vec![file])),
        }
    }
    Ok(maps.into_iter().map(|(_, held)| held).collect())
}

/// A ConfigMap with these files. Text goes into `data`, so that it stays readable.
fn object(name: &str, namespace: &str, files: &[&File]) -> anyhow::Result<Value> {
    let (mut data, mut binary_data) = (BTreeMap::new(), BTreeMap::new());
    for file in files {
        match std::str::from_utf8(&file.bytes) {
            Ok(text) => {
                data.insert(file.name.clone(), text.to_owned());
            }
            Err(_) => {
                binary_data.insert(file.name.clone(), ByteString(file.bytes.clone()));
            }
        }
    }
    let labels = [("app.kubernetes.io/name".to_owned(), "podloom".to_owned())];
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        data: (!data.is_empty()).then_some(data),
        binary_data: (!binary_data.is_empty()).then_some(binary_data),
        immutable: None,
    };
    serde_json::to_value(map).context("could not write a ConfigMap")
}

/// A ConfigMap as YAML, with the parts that people read first.
fn yaml(object: &Value) -> anyhow::Result<String> {
    ["apiVersion", "kind", "metadata", "data", "binaryData"]
        .into_iter()
        .filter_map(|key| Some(output::yaml(&json!({ key: object.get(key)? }))))
        .collect()
}

/// The size of the annotation in which `kubectl apply` would store a copy of the object.
fn annotation_bytes(object: &Value) -> usize {
    let mut copy = object.clone();
    if let Some(Value::Object(metadata)) = copy.get_mut("metadata") {
        metadata.insert("annotations".to_owned(), json!({}));
    }
    let text = copy.to_string();
    // Go escapes these characters, so that its JSON is safe in HTML.
    let escaped: usize = text
        .chars()
        .map(|char| match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => "\\u0000".len() - char.len_utf8(),
            _ => 0,
        })
        .sum();
    LAST_APPLIED.len() + text.len() + escaped + "\n".len()
}

#[cfg(test)]
mod tests;
