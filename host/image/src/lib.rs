//! Writes a container image, or another artifact for a registry, as an archive, without a container engine.
//!
//! The archive is an OCI image layout in a tar file, which containerd, podman, kind, k3d and minikube load. A file
//! `manifest.json` is in it too: Docker's own image store reads no OCI layouts, but finds the same blobs by this file.
//!
//! The same files give the same bytes: there are no times in the archive, everything is sorted, and root owns every file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io, iter};

use flate2::{Compression, GzBuilder};
use podloom_syntax::image::ImageRef;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

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

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The size of the archive in bytes.
    pub size: u64,
    /// The image's digest: `sha256:` and that of its manifest.
    pub digest: String,
}

/// Writes the archive. An old one is replaced when the new one is complete.
///
/// # Errors
///
/// Fails if a file of the image cannot be read, the archive cannot be written, or a name is missing or not complete.
pub fn write(image: &Image, archive: &Path) -> Result<Written, ImageError> {
    check_names(&image.names)?;
    let (layer, diff_id) = image.layer.pack()?;
    let config = Blob::new("config.v1+json", text(&config(image, &diff_id)));
    let layer = Blob::new("layer.v1.tar+gzip", layer);
    let manifest = manifest(&config, &layer.descriptor(), &BTreeMap::new());
    let platform = json!({ "architecture": image.architecture, "os": "linux" });
    let index = index(&image.names, Some(&platform), &manifest);
    // What Docker's own image store reads in place of the layout.
    let for_docker = json!([{
        "Config": config.path(),
        "RepoTags": image.names,
        "Layers": [layer.path()],
    }]);
    let documents = [("index.json", index), ("manifest.json", for_docker)];
    finish(&documents, [manifest, config, layer], archive)
}

/// Writes an artifact as an archive, as [`write()`] does an image. No container engine runs it; registries hold it.
///
/// # Errors
///
/// Fails if the archive cannot be written, or a name is missing or not complete.
pub fn write_artifact(artifact: &Artifact, archive: &Path) -> Result<Written, ImageError> {
    check_names(&artifact.names)?;
    let config = Blob::of_type(&artifact.config_type, text(&artifact.config));
    let layer = Blob::of_type(&artifact.layer_type, artifact.layer.clone());
    let mut file = layer.descriptor();
    file["annotations"] = json!({ "org.opencontainers.image.title": artifact.file_name });
    let manifest = manifest(&config, &file, &artifact.annotations);
    let index = index(&artifact.names, None, &manifest);
    let documents = [("index.json", index)];
    finish(&documents, [manifest, config, layer], archive)
}

/// Writes the marker of an image layout, the documents, and then the blobs. The first of these is the manifest.
fn finish(
    documents: &[(&str, Value)],
    blobs: [Blob; 3],
    archive: &Path,
) -> Result<Written, ImageError> {
    let [manifest, ..] = &blobs;
    let digest = format!("sha256:{}", manifest.digest);
    let marker = ("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }));
    let documents = iter::once(&marker).chain(documents);
    let documents = documents.map(|(path, document)| ((*path).to_owned(), text(document)));
    let blobs = blobs.map(|blob| (blob.path(), blob.bytes));
    let in_archive = |source| ImageError::File {
        path: archive.to_owned(),
        source,
    };
    let size = write_files(documents.chain(blobs), archive).map_err(in_archive)?;
    Ok(Written { size, digest })
}

fn write_files(files: impl Iterator<Item = (String, Vec<u8>)>, archive: &Path) -> io::Result<u64> {
    let directory = archive.parent().filter(|path| *path != Path::new(""));
    // Another build may write the same archive at the same time, so the file has a name of its own until it is complete.
    let partial = tempfile::Builder::new()
        .prefix(".podloom-image-")
        // Less the umask, as for any other file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    let mut tar = Builder::new(BufWriter::new(partial));
    for directory in ["blobs/", "blobs/sha256/"] {
        append_directory(&mut tar, directory)?;
    }
    for (path, bytes) in files {
        append_bytes(&mut tar, &path, &bytes)?;
    }
    let partial = tar.into_inner()?.into_inner()?;
    partial.as_file().sync_all()?;
    Ok(partial.persist(archive)?.metadata()?.len())
}

/// Checks that there is a name, and that each is complete: registry, repository and tag.
///
/// # Errors
///
/// Fails for any other name: container engines would complete or change it, and then nobody finds the image under the name in
/// the manifests.
pub fn check_names(names: &[String]) -> Result<(), ImageError> {
    if names.is_empty() {
        return Err(ImageError::Nameless);
    }
    // `registry/repository:tag`, and nothing that a short name leaves out.
    let is_complete = |name: &str| {
        let image = name.parse::<ImageRef>();
        image.is_ok_and(|image| image.digest.is_none() && image.to_string() == name)
    };
    match names.iter().find(|name| !is_complete(name)) {
        Some(name) => Err(ImageError::ImageName(name.clone())),
        None => Ok(()),
    }
}

/// The start of every media type.
const IMAGE: &str = "application/vnd.oci.image";

/// A document or layer, stored under its digest.
struct Blob {
    bytes: Vec<u8>,
    /// In hexadecimal, without the algorithm.
    digest: String,
    media_type: String,
}

impl Blob {
    /// A part of an image.
    fn new(kind: &str, bytes: Vec<u8>) -> Self {
        Self::of_type(&format!("{IMAGE}.{kind}"), bytes)
    }

    fn of_type(media_type: &str, bytes: Vec<u8>) -> Self {
        Self {
            digest: hex(&Sha256::digest(&bytes)),
            media_type: media_type.to_owned(),
            bytes,
        }
    }

    /// Where the archive holds it.
    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": format!("sha256:{}", self.digest),
            "size": self.bytes.len(),
        })
    }
}

/// How containers are started, and what the layer holds.
fn config(image: &Image, diff_id: &str) -> Value {
    let config = &image.config;
    let ports: Map<String, Value> = config
        .ports
        .iter()
        .map(|port| (format!("{port}/tcp"), json!({})))
        .collect();
    json!({
        "architecture": image.architecture,
        "os": "linux",
        "config": present(vec![
            ("User", json!(config.user)),
            ("ExposedPorts", json!(ports)),
            ("Env", json!(["PATH=/usr/bin:/bin"])),
            ("Entrypoint", json!(config.entrypoint)),
            ("Cmd", json!(config.command)),
            ("WorkingDir", json!("/")),
            ("Labels", json!(config.labels)),
        ]),
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
    })
}

/// Leaves out what is empty: engines take an empty value for a value.
fn present(fields: Vec<(&str, Value)>) -> Value {
    let is_empty = |value: &Value| {
        value.as_str().is_some_and(str::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty)
    };
    let present = fields.into_iter().filter(|(_, value)| !is_empty(value));
    present
        .map(|(name, value)| (name.to_owned(), value))
        .collect::<Map<_, _>>()
        .into()
}

fn manifest(config: &Blob, layer: &Value, annotations: &BTreeMap<String, String>) -> Blob {
    let mut document = json!({
        "schemaVersion": 2,
        "mediaType": format!("{IMAGE}.manifest.v1+json"),
        "config": config.descriptor(),
        "layers": [layer],
    });
    if !annotations.is_empty() {
        document["annotations"] = json!(annotations);
    }
    Blob::new("manifest.v1+json", text(&document))
}

/// The list of images: the same one once for each name. An artifact is for no platform.
fn index(names: &[String], platform: Option<&Value>, manifest: &Blob) -> Value {
    let named = |name: &String| {
        let mut descriptor = manifest.descriptor();
        if let Some(platform) = platform {
            descriptor["platform"] = platform.clone();
        }
        descriptor["annotations"] = json!({
            // containerd takes the whole name from here, podman from the next.
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name,
        });
        descriptor
    };
    json!({
        "schemaVersion": 2,
        "mediaType": format!("{IMAGE}.index.v1+json"),
        "manifests": names.iter().map(named).collect::<Vec<_>>(),
    })
}

/// The maps of serde_json are sorted, so the same document has the same bytes.
fn text(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files of an image, by their paths in it.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    files: BTreeMap<String, Content>,
}

/// What a file of an image holds.
#[derive(Clone, Debug)]
enum Content {
    /// What this file of the machine holds.
    Of(PathBuf),
    Bytes(Vec<u8>),
}

impl Layer {
    /// Adds a file, or a directory with everything in it, under a path of the image. Links are followed.
    ///
    /// A later file replaces an earlier one with the same path.
    ///
    /// # Errors
    ///
    /// Fails if something cannot be read, or is neither a file nor a directory, or if a path in the image is not usable.
    pub fn add(&mut self, from: &Path, to: &str) -> Result<(), ImageError> {
        let in_file = |source| ImageError::File {
            path: from.to_owned(),
            source,
        };
        let kind = fs::metadata(from).map_err(in_file)?.file_type();
        if kind.is_dir() {
            for entry in fs::read_dir(from).map_err(in_file)? {
                let path = entry.map_err(in_file)?.path();
                let name = path.file_name().and_then(|name| name.to_str());
                let name = name.ok_or_else(|| ImageError::Name(path.clone()))?;
                self.add(&path, &format!("{to}/{name}"))?;
            }
            return Ok(());
        }
        if !kind.is_file() {
            return Err(ImageError::Special(from.to_owned()));
        }
        self.files.insert(normal(to)?, Content::Of(from.to_owned()));
        Ok(())
    }

    /// Adds a file with these bytes under a path of the image.
    ///
    /// # Errors
    ///
    /// Fails if the path is not usable.
    pub fn add_bytes(&mut self, bytes: Vec<u8>, to: &str) -> Result<(), ImageError> {
        self.files.insert(normal(to)?, Content::Bytes(bytes));
        Ok(())
    }

    /// Returns the layer, compressed with gzip, and the digest of the tar archive before compression, which identifies the files whatever
    /// the compression is.
    fn pack(&self) -> Result<(Vec<u8>, String), ImageError> {
        // The crate writes no time and no name into gzip's header.
        let gzip = GzBuilder::new().write(Vec::new(), Compression::default());
        let mut tar = Builder::new(Hashing {
            inner: gzip,
            hash: Sha256::new(),
        });
        let mut directories = BTreeSet::new();
        for (path, content) in &self.files {
            let in_file = |source| ImageError::File {
                path: match content {
                    Content::Of(file) => file.clone(),
                    Content::Bytes(_) => PathBuf::from(path),
                },
                source,
            };
            append_parents(&mut tar, path, &mut directories).map_err(in_file)?;
            match content {
                Content::Of(file) => append_file(&mut tar, path, file),
                Content::Bytes(bytes) => append_bytes(&mut tar, path, bytes),
            }
            .map_err(in_file)?;
        }
        let in_memory = |source| ImageError::File {
            path: PathBuf::from("the layer in memory"),
            source,
        };
        let hashing = tar.into_inner().map_err(in_memory)?;
        let diff_id = format!("sha256:{}", hex(&hashing.hash.finalize()));
        Ok((hashing.inner.finish().map_err(in_memory)?, diff_id))
    }
}

/// A path without a leading slash and empty parts.
fn normal(path: &str) -> Result<String, ImageError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || parts.iter().any(|part| matches!(*part, "." | "..")) {
        return Err(ImageError::Path(path.to_owned()));
    }
    Ok(parts.join("/"))
}

/// Everybody can read everything in the image; what can be run here can be run there.
fn append_file<W: Write>(tar: &mut Builder<W>, path: &str, file: &Path) -> io::Result<()> {
    let mut content = File::open(file)?;
    let metadata = content.metadata()?;
    let is_program = metadata.permissions().mode() & 0o111 != 0;
    let mut header = header(EntryType::Regular, if is_program { 0o755 } else { 0o644 });
    header.set_size(metadata.len());
    tar.append_data(&mut header, path, &mut content)
}

fn append_bytes<W: Write>(tar: &mut Builder<W>, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = header(EntryType::Regular, 0o644);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, path, bytes)
}

fn append_parents<W: Write>(
    tar: &mut Builder<W>,
    path: &str,
    known: &mut BTreeSet<String>,
) -> io::Result<()> {
    for (end, _) in path.match_indices('/') {
        let directory = path.get(..end).unwrap_or_default();
        if known.insert(directory.to_owned()) {
            append_directory(tar, &format!("{directory}/"))?;
        }
    }
    Ok(())
}

fn append_directory<W: Write>(tar: &mut Builder<W>, path: &str) -> io::Result<()> {
    let mut header = header(EntryType::Directory, 0o755);
    header.set_size(0);
    tar.append_data(&mut header, path, io::empty())
}

/// A header that belongs to root and has no time.
fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Computes the digest of what passes through.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
