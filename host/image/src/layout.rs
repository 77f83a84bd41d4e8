//! The documents of an OCI image layout.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{Artifact, Image};

/// The start of every media type.
const IMAGE: &str = "application/vnd.oci.image";

/// A document or layer, stored under its digest.
pub(crate) struct Blob {
    pub(crate) bytes: Vec<u8>,
    /// In hexadecimal, without the algorithm.
    pub(crate) digest: String,
    media_type: String,
}

impl Blob {
    /// A part of an image.
    fn new(kind: &str, bytes: Vec<u8>) -> Self {
        Self::of_type(&format!("{IMAGE}.{kind}"), bytes)
    }

    pub(crate) fn of_type(media_type: &str, bytes: Vec<u8>) -> Self {
        Self {
            digest: hex(&Sha256::digest(&bytes)),
            media_type: media_type.to_owned(),
            bytes,
        }
    }

    /// Where the archive holds it.
    pub(crate) fn path(&self) -> String {
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

pub(crate) fn layer(bytes: Vec<u8>) -> Blob {
    Blob::new("layer.v1.tar+gzip", bytes)
}

/// How containers are started, and what the layer holds.
pub(crate) fn config(image: &Image, diff_id: &str) -> Blob {
    let config = &image.config;
    let ports: Map<String, Value> = config
        .ports
        .iter()
        .map(|port| (format!("{port}/tcp"), json!({})))
        .collect();
    let document = json!({
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
    });
    Blob::new("config.v1+json", text(&document))
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

pub(crate) fn manifest(config: &Blob, layer: &Blob) -> Blob {
    let document = json!({
        "schemaVersion": 2,
        "mediaType": format!("{IMAGE}.manifest.v1+json"),
        "config": config.descriptor(),
        "layers": [layer.descriptor()],
    });
    Blob::new("manifest.v1+json", text(&document))
}

/// The manifest of an artifact, with what people read in a registry.
pub(crate) fn manifest_of(artifact: &Artifact, config: &Blob, layer: &Blob) -> Blob {
    let mut file = layer.descriptor();
    file["annotations"] = json!({ "org.opencontainers.image.title": artifact.file_name });
    let mut document = json!({
        "schemaVersion": 2,
        "mediaType": format!("{IMAGE}.manifest.v1+json"),
        "config": config.descriptor(),
        "layers": [file],
    });
    if !artifact.annotations.is_empty() {
        document["annotations"] = json!(artifact.annotations);
    }
    Blob::new("manifest.v1+json", text(&document))
}

/// The list of images: the same one once for each name.
pub(crate) fn index(image: &Image, manifest: &Blob) -> Vec<u8> {
    let platform = json!({ "architecture": image.architecture, "os": "linux" });
    index_of(&image.names, Some(&platform), manifest)
}

/// The same for an artifact, which is for no platform.
pub(crate) fn index_of(names: &[String], platform: Option<&Value>, manifest: &Blob) -> Vec<u8> {
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
    text(&json!({
        "schemaVersion": 2,
        "mediaType": format!("{IMAGE}.index.v1+json"),
        "manifests": names.iter().map(named).collect::<Vec<_>>(),
    }))
}

/// The marker of an image layout.
pub(crate) fn marker() -> Vec<u8> {
    text(&json!({ "imageLayoutVersion": "1.0.0" }))
}

/// What Docker's own image store reads in place of the layout.
pub(crate) fn for_docker(image: &Image, config: &Blob, layer: &Blob) -> Vec<u8> {
    text(&json!([{
        "Config": config.path(),
        "RepoTags": image.names,
        "Layers": [layer.path()],
    }]))
}

/// The maps of serde_json are sorted, so the same document has the same bytes.
pub(crate) fn text(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
