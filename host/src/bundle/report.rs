//! What `podloom bundle` tells people on standard error.

use std::fmt::Write;
use std::path::Path;

use super::config_map::{MAX_ANNOTATIONS, MAX_BYTES, annotation_bytes};
use super::{File, Made, Shipment};
use crate::explain::count;
use crate::output::{QUIET, TITLE, WARNING, paint};

/// How large everything is.
pub(super) fn files(shipment: &Shipment, digest: &str) -> String {
    let mut text = String::new();
    for file in shipment.files() {
        let _infallible = writeln!(
            text,
            "{:>9}  {}{}",
            file.bytes.len(),
            file.name,
            paint(QUIET, &was(file))
        );
    }
    let bytes = shipment.bytes();
    let sum = paint(TITLE, &format!("{bytes:>9}  bytes"));
    let share = (bytes * 100).div_ceil(MAX_BYTES);
    let _infallible = writeln!(
        text,
        "{sum}, {share} % of the {MAX_BYTES} that a ConfigMap holds\nchain {digest}"
    );
    text
}

fn was(file: &File) -> String {
    let Some(packed) = &file.packed else {
        return String::new();
    };
    let pin = if file.is_pinned {
        "; its sha256 in the manifest is now that of the compressed file"
    } else {
        ""
    };
    format!("  from {}, {} bytes{pin}", packed.name, packed.bytes)
}

/// What comes next.
pub(super) fn what_to_do(shipment: &Shipment, made: &[Made], output: &Path) -> String {
    let mut text = String::new();
    if made.len() > 1 {
        text.push_str(&of_several(shipment, made));
    }
    let largest = made.iter().map(|made| annotation_bytes(&made.object)).max();
    let largest = largest.unwrap_or_default();
    if largest > MAX_ANNOTATIONS {
        let _infallible = writeln!(
            text,
            "{} kubectl apply would keep a copy of {largest} bytes in an annotation, and annotations hold {MAX_ANNOTATIONS}; \
             these keep none:\n  kubectl apply --server-side -f {file}\n  kubectl create -f {file}\n  kubectl replace -f {file}",
            paint(WARNING, "note:"),
            file = output.display()
        );
    }
    text
}

/// Several objects never change at once.
fn of_several(shipment: &Shipment, made: &[Made]) -> String {
    let maps = made
        .iter()
        .map(|made| format!("{} with {} bytes", made.name, made.bytes));
    let mut text = format!(
        "{} for one projected volume: {}\n",
        count(made.len(), "ConfigMap"),
        maps.collect::<Vec<_>>().join(", ")
    );
    let unpinned = shipment.plugins.iter().filter(|file| !file.is_pinned);
    let unpinned: Vec<&str> = unpinned.map(|file| file.name.as_str()).collect();
    if !unpinned.is_empty() {
        let these = match unpinned.as_slice() {
            [_] => "this plugin",
            _ => "each of these plugins",
        };
        let _infallible = writeln!(
            text,
            "{} they change one after the other, and for a moment a mixture of old and new may be mounted; it is refused if \
             {these} has its sha256 in chain.yaml: {}",
            paint(WARNING, "note:"),
            unpinned.join(", ")
        );
    }
    text
}
