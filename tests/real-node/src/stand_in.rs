//! An image that stands in for others: its program runs until it is told to stop.
//!
//! The program is at `/usr/bin/stand-in`, which a container without a command runs; with the argument `eat` it takes memory until
//! the kernel stops it. As `/usr/bin/profile` it ends at once, and `/usr/bin/entrypoint` is the same as the first.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use podloom_image::{Config, Image, Layer, Written};

use crate::error::NodeError;
use crate::programs::Programs;

/// Its paths in the image.
const PATHS: [&str; 3] = ["usr/bin/stand-in", "usr/bin/profile", "usr/bin/entrypoint"];

/// The images that manifests name, in lines like `image: example.com/browser:1`; sorted, each once.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn named_in(files: &[PathBuf]) -> Result<Vec<String>, NodeError> {
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).map_err(|source| NodeError::File {
            path: file.clone(),
            source,
        })?;
        let images = text
            .lines()
            .filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("image: "));
        names.extend(images.map(|name| name.trim().to_owned()));
    }
    Ok(names.into_iter().collect())
}

/// Writes an archive with the image under these names.
///
/// # Errors
///
/// Fails if a name is not complete, or the archive cannot be written.
pub fn write(programs: &Programs, names: &[String], archive: &Path) -> Result<Written, NodeError> {
    let mut layer = Layer::default();
    for path in PATHS {
        layer.add(&programs.directory.join("stand-in"), path)?;
    }
    let image = Image {
        names: names.to_vec(),
        architecture: architecture().to_owned(),
        config: Config {
            // As in the pause image: a pod that must not run as root names no user by itself.
            user: "65535:65535".to_owned(),
            entrypoint: vec![format!("/{}", PATHS[0])],
            ..Config::default()
        },
        layer,
    };
    Ok(podloom_image::write(&image, archive)?)
}

/// What images call this machine's architecture.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
