//! The archive: blobs, and the documents that lead to them.

use std::fs::Permissions;
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use podloom_syntax::image::ImageRef;
use tar::{Builder, EntryType};

use crate::layer::header;
use crate::layout::Blob;
use crate::{Artifact, Image, ImageError, layout};

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
    let packed = image.layer.pack()?;
    let config = layout::config(image, &packed.diff_id);
    let layer = layout::layer(packed.bytes);
    let manifest = layout::manifest(&config, &layer);
    let mut files = vec![
        ("oci-layout".to_owned(), layout::marker()),
        ("index.json".to_owned(), layout::index(image, &manifest)),
        (
            "manifest.json".to_owned(),
            layout::for_docker(image, &config, &layer),
        ),
    ];
    finish(&mut files, [manifest, config, layer], archive)
}

/// Writes an artifact as an archive, as [`write()`] does an image. No container engine runs it; registries hold it.
///
/// # Errors
///
/// Fails if the archive cannot be written, or a name is missing or not complete.
pub fn write_artifact(artifact: &Artifact, archive: &Path) -> Result<Written, ImageError> {
    check_names(&artifact.names)?;
    let config = Blob::of_type(&artifact.config_type, layout::text(&artifact.config));
    let layer = Blob::of_type(&artifact.layer_type, artifact.layer.clone());
    let manifest = layout::manifest_of(artifact, &config, &layer);
    let index = layout::index_of(&artifact.names, None, &manifest);
    let mut files = vec![
        ("oci-layout".to_owned(), layout::marker()),
        ("index.json".to_owned(), index),
    ];
    finish(&mut files, [manifest, config, layer], archive)
}

/// Writes the documents, and then the blobs. The first of these is the manifest.
fn finish(
    files: &mut Vec<(String, Vec<u8>)>,
    blobs: [Blob; 3],
    archive: &Path,
) -> Result<Written, ImageError> {
    let [manifest, ..] = &blobs;
    let digest = format!("sha256:{}", manifest.digest);
    files.extend(blobs.map(|blob| (blob.path(), blob.bytes)));
    let in_archive = |source| ImageError::File {
        path: archive.to_owned(),
        source,
    };
    let size = write_files(files, archive).map_err(in_archive)?;
    Ok(Written { size, digest })
}

fn write_files(files: &[(String, Vec<u8>)], archive: &Path) -> io::Result<u64> {
    let directory = archive.parent().filter(|path| *path != Path::new(""));
    // Another build may write the same archive at the same time, so the file has a name of its own until it is complete.
    let partial = tempfile::Builder::new()
        .prefix(".podloom-image-")
        // Less the umask, as for any other file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    let mut tar = Builder::new(BufWriter::new(partial));
    for directory in ["blobs/", "blobs/sha256/"] {
        let mut header = header(EntryType::Directory, 0o755);
        header.set_size(0);
        tar.append_data(&mut header, directory, io::empty())?;
    }
    for (path, bytes) in files {
        let mut header = header(EntryType::Regular, 0o644);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, path, bytes.as_slice())?;
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
    match names.iter().find(|name| !is_complete(name)) {
        Some(name) => Err(ImageError::ImageName(name.clone())),
        None => Ok(()),
    }
}

/// `registry/repository:tag` and nothing that a short name leaves out.
fn is_complete(name: &str) -> bool {
    name.parse::<ImageRef>()
        .is_ok_and(|image| image.digest.is_none() && image.to_string() == name)
}
