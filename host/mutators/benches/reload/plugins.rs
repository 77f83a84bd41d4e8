//! The standard plugins, and versions of them that differ in bytes and not in what they do.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use podloom_mutation::MutatedPod;
use podloom_mutators::Chain;
use serde_json::Value;

use crate::volume::Files;

/// The plugins of a bundle, unpacked, and how often each was changed.
pub(crate) struct Plugins {
    manifest: Vec<u8>,
    files: Vec<(String, Vec<u8>, u32)>,
    next: usize,
}

impl Plugins {
    /// Reads the bundle that `PODLOOM_BUNDLE` names.
    pub(crate) fn read() -> Self {
        let directory = std::env::var_os("PODLOOM_BUNDLE");
        let directory = PathBuf::from(directory.expect("PODLOOM_BUNDLE names a bundle"));
        let manifest = fs::read_to_string(directory.join("chain.yaml")).expect("chain.yaml");
        let mut files = Vec::new();
        for entry in fs::read_dir(directory).expect("the bundle is a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(name) = name.and_then(|name| name.strip_suffix(".gz")) {
                let shipped = fs::read(&path).expect("a plugin");
                let mut wasm = Vec::new();
                GzDecoder::new(shipped.as_slice())
                    .read_to_end(&mut wasm)
                    .expect("gzip");
                files.push((name.to_owned(), wasm, 0));
            }
        }
        Self {
            manifest: manifest.replace(".wasm.gz", ".wasm").into_bytes(),
            files,
            next: 0,
        }
    }

    /// What is in the volume.
    pub(crate) fn files(&self) -> Files {
        let plugins = self.files.iter().map(|(name, wasm, version)| {
            let mut wasm = wasm.clone();
            wasm.extend(section(*version));
            (name.clone(), wasm)
        });
        let manifest = ("chain.yaml".to_owned(), self.manifest.clone());
        plugins.chain([manifest]).collect()
    }

    /// Changes one plugin, another one each time, and returns what is in the volume then.
    pub(crate) fn change_one(&mut self) -> Files {
        let count = self.files.len();
        if let Some((_, _, version)) = self.files.get_mut(self.next % count) {
            *version += 1;
        }
        self.next += 1;
        self.files()
    }

    /// Changes every plugin, and returns what is in the volume then.
    pub(crate) fn change_all(&mut self) -> Files {
        for (_, _, version) in &mut self.files {
            *version += 1;
        }
        self.files()
    }
}

/// A custom section, which changes a module's digest and nothing else.
fn section(version: u32) -> Vec<u8> {
    let name = b"version";
    let mut content = vec![7];
    content.extend(name);
    content.extend(version.to_le_bytes());
    let length = u8::try_from(content.len()).expect("a dozen bytes");
    [vec![0, length], content].concat()
}

/// Whether the stamp of a pod names this chain and each of its plugins that ran.
pub(crate) fn went_through(mutation: &MutatedPod, chain: &Chain) -> bool {
    let annotation = |key: &str| {
        let annotations = mutation.pod.get("metadata")?.get("annotations")?;
        annotations.get(key)?.as_str()
    };
    let stamped: Option<Vec<Value>> =
        annotation("podloom.dev/mutations").and_then(|text| serde_json::from_str(text).ok());
    annotation("podloom.dev/chain") == Some(chain.digest())
        && stamped.is_some_and(|stamped| {
            stamped.len() == chain.plugins().len()
                && stamped.iter().zip(chain.plugins()).all(|(run, plugin)| {
                    run.get("sha256").and_then(Value::as_str) == Some(&plugin.sha256)
                })
        })
}
