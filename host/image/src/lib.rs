//! Writes a container image, or another artifact for a registry, as an archive, without a container engine.
//!
//! The archive is an OCI image layout in a tar file, which containerd, podman, kind, k3d and minikube load. A file
//! `manifest.json` is in it too: Docker's own image store reads no OCI layouts, but finds the same blobs by this file.
//!
//! The same files give the same bytes: there are no times in the archive, everything is sorted, and root owns every file.

mod archive;
mod layer;
mod layout;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

pub use archive::{Written, check_names, write, write_artifact};
pub use layer::Layer;

/// Why an image could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file could not be read or written.
    #[error("{}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something that an image of ours cannot hold.
    #[error("{} is neither a file nor a directory", .0.display())]
    Special(PathBuf),
    /// A file name that is not UTF-8.
    #[error("the name of {} is not UTF-8", .0.display())]
    Name(PathBuf),
    /// A path in the image that is not usable.
    #[error(
        "{0:?} is no path for a file of an image: write it without `..`, for example usr/bin/podloom"
    )]
    Path(String),
    /// There is no name to load the image under.
    #[error("an image needs at least one name")]
    Nameless,
    /// A name that container engines would read as another one, or refuse.
    #[error(
        "{0:?} is not a complete image name; write registry, repository and tag in lower case, for example registry.example.com/podloom:0.1.0"
    )]
    ImageName(String),
}

/// An image with one layer.
#[derive(Clone, Debug)]
pub struct Image {
    /// The names under which it is loaded, each with registry and tag. At least one.
    pub names: Vec<String>,
    /// The architecture of its programs, as Go calls it: `amd64`, `arm64`.
    pub architecture: String,
    /// How its containers are started.
    pub config: Config,
    /// Its files.
    pub layer: Layer,
}

/// Something in a registry that is no image: a document about it, and one file.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The names under which it is stored, each with registry and tag. At least one.
    pub names: Vec<String>,
    /// The media type of the document.
    pub config_type: String,
    /// The document.
    pub config: serde_json::Value,
    /// The media type of the file.
    pub layer_type: String,
    /// The file, as it is.
    pub layer: Vec<u8>,
    /// The name that the file gets when it is pulled.
    pub file_name: String,
    /// Annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
}

/// How containers of an image are started.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The user and group as numbers, like `65532:65532`; empty for root.
    pub user: String,
    /// The program with its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, which a pod's `args` replace.
    pub command: Vec<String>,
    /// The TCP ports that the program listens on.
    pub ports: Vec<u16>,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
}
