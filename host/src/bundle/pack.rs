//! Compresses what is not compressed yet.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use podloom_mutators::{Bundle, MANIFEST, sha256};

use super::manifest::{self, Change, Changes};
use super::{File, Packed, Shipment};
use crate::refusal::{Failure, Refusal};

const GZIP: &[u8] = &[0x1f, 0x8b];

/// Compresses the plugins of a bundle, and has its manifest follow.
pub(super) fn pack(directory: &Path, bundle: &Bundle) -> Result<Shipment, Failure> {
    let text = std::str::from_utf8(bundle.manifest()).context("the manifest is not UTF-8")?;
    let pinned = manifest::pinned_files(text);
    let mut plugins = BTreeMap::new();
    let mut changes = Changes::new();
    let mut refusals = Vec::new();
    for (name, bytes) in bundle.files() {
        let is_pinned = pinned.iter().any(|file| file == name);
        let file = pack_file(name, bytes, is_pinned)?;
        if file.packed.is_some() {
            changes.insert(
                name.to_owned(),
                Change {
                    name: file.name.clone(),
                    sha256: sha256(&file.bytes),
                },
            );
        }
        if let Some(other) = plugins.insert(file.name.clone(), file) {
            refusals.push(Refusal::of_input(taken(directory, &other.name)));
        }
    }
    if !refusals.is_empty() {
        return Err(Failure::Refused(refusals));
    }
    let text = manifest::change(text, &changes)
        .map_err(|manifest::NotInPlace| Failure::refused(not_in_place(directory, &changes)))?;
    Ok(Shipment {
        manifest: File {
            name: MANIFEST.to_owned(),
            bytes: text.into_bytes(),
            is_pinned: false,
            packed: None,
        },
        plugins: plugins.into_values().collect(),
    })
}

/// The content tells whether a file is compressed, as it does when a chain is loaded; the name says nothing.
fn pack_file(name: &str, bytes: &[u8], is_pinned: bool) -> anyhow::Result<File> {
    let kept = File {
        name: name.to_owned(),
        bytes: bytes.to_owned(),
        is_pinned,
        packed: None,
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
        packed: Some(Packed {
            name: kept.name,
            bytes: bytes.len(),
        }),
    })
}

/// Neither name nor time goes into the file, so the same bytes become the same bytes.
pub(crate) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    let options = zopfli::Options::default();
    zopfli::compress(options, zopfli::Format::Gzip, bytes, &mut packed)?;
    Ok(packed)
}

fn taken(directory: &Path, name: &str) -> String {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    format!(
        "{}/{MANIFEST}: {plain} would become {name}, which is another plugin's file; give one of them another name",
        directory.display()
    )
}

fn not_in_place(directory: &Path, changes: &Changes) -> String {
    let names: Vec<&str> = changes.keys().map(String::as_str).collect();
    format!(
        "{}/{MANIFEST}: its plugins are compressed to be shipped, and names or digests of {} are written in a way that cannot \
         be changed without changing something else; write them as plain values, without anchors, or compress the files \
         yourself",
        directory.display(),
        names.join(", ")
    )
}
