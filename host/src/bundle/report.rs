//! What `podloom bundle` prints on standard error: sizes, and what to do next.

use std::fmt::Write;
use std::path::Path;

use super::config_map::{MAX_ANNOTATIONS, MAX_BYTES, annotation_bytes};
use super::{BundleMap, File, PackedBundle};
use crate::explain::count;
use crate::output::{QUIET, TITLE, WARNING, paint};

/// The size of each file and of the bundle, and perhaps how much of a ConfigMap that is.
pub(super) fn files(packed: &PackedBundle, digest: &str, for_config_map: bool) -> String {
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
    let Some(original) = &file.original else {
        return String::new();
    };
    let pin = if file.is_pinned {
        "; its sha256 in chain.yaml is updated to that of the compressed file"
    } else {
        ""
    };
    format!("  from {}, {} bytes{pin}", original.name, original.bytes)
}

/// What the user has to know to apply the ConfigMaps.
pub(super) fn next_steps(packed: &PackedBundle, maps: &[BundleMap], output: &Path) -> String {
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
