//! The chains that are measured, and how they change.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use podloom_tests::{MountedBundle, assemble};

const MANIFEST: &str = "chain.yaml";
/// The first bytes of gzip, and where it says when the file was packed.
const GZIP: &[u8] = &[0x1f, 0x8b];
const PACKED_AT: std::ops::Range<usize> = 4..8;
/// A value in the standard chain.
const VALUE: &str = "default: unassigned";

/// The namespace of the pods that [`HOSTILE`] sees.
pub(crate) const HOSTILE_NAMESPACE: &str = "hostile";
/// How long it may take for a pod, in milliseconds.
pub(crate) const HOSTILE_LIMIT_MS: f64 = 100.0;
/// A plugin that never returns, so that it runs into its time limit, and pods pass nevertheless.
const HOSTILE: &str = "\
- { name: loops, file: loops.wasm, allow: [/metadata/labels], match: { namespaces: [hostile] }, failurePolicy: Ignore, limits: { timeout: 100ms } }
";

/// The chain of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainUnderTest {
    /// labels, sidecar and hardening.
    Three,
    /// One plugin that sets two labels.
    TwoLabels,
    /// None.
    Empty,
}

impl ChainUnderTest {
    pub(crate) const ALL: [Self; 3] = [Self::Three, Self::TwoLabels, Self::Empty];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Three => "three plugins",
            Self::TwoLabels => "two labels",
            Self::Empty => "empty chain",
        }
    }

    /// Its bundle, from the directory of the standard plugins.
    pub(crate) fn files(self, plugins: &Path) -> Result<Files> {
        let mut files = Files::read(plugins)?;
        let entries = match self {
            // The chain of the bundle, as it is.
            Self::Three => return Ok(files),
            Self::TwoLabels => {
                "\n- { name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: { labels: [{ key: team, value: web }, { key: tier, value: front }] } }"
            }
            Self::Empty => " []",
        };
        let chain =
            format!("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:{entries}\n");
        files.0.insert(MANIFEST.to_owned(), chain.into_bytes());
        Ok(files)
    }
}

/// The files of a bundle, by name.
pub(crate) struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn read(directory: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            // Links of a mounted volume lead to files.
            if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                files.insert(name.to_string_lossy().into_owned(), fs::read(&path)?);
            }
        }
        Ok(Self(files))
    }

    /// With one more plugin, which sees only the pods of the hostile namespace.
    pub(crate) fn with_hostile(mut self) -> Self {
        self.0.insert("loops.wasm".to_owned(), assemble("loops"));
        let manifest = self.0.entry(MANIFEST.to_owned()).or_default();
        manifest.extend(HOSTILE.bytes());
        self
    }

    pub(crate) fn mount(&self) -> MountedBundle {
        MountedBundle::filled(|directory| self.write(directory))
    }

    /// Swaps in a bundle that differs a little each time: a plugin that has to be compiled, then a value in the manifest.
    pub(crate) fn change(&self, bundle: &MountedBundle, number: u32) -> Result<()> {
        let next = match number.is_multiple_of(2) {
            true => {
                let mut next = Self(self.0.clone());
                next.repack("labels.wasm.gz", number)?;
                next
            }
            false => self.with_value(number)?,
        };
        bundle.swap(|directory| next.write(directory));
        Ok(())
    }

    /// With another value in the manifest of the standard chain.
    pub(crate) fn with_value(&self, number: u32) -> Result<Self> {
        let mut next = Self(self.0.clone());
        let manifest = next.0.entry(MANIFEST.to_owned()).or_default();
        let text = String::from_utf8(std::mem::take(manifest))?;
        *manifest = text
            .replace(VALUE, &format!("{VALUE}-{number}"))
            .into_bytes();
        Ok(next)
    }

    /// A file that was packed later has another digest, and the same plugin in it.
    fn repack(&mut self, name: &str, number: u32) -> Result<()> {
        let file = self.0.get_mut(name).filter(|file| file.starts_with(GZIP));
        match file.and_then(|file| file.get_mut(PACKED_AT)) {
            Some(packed_at) => packed_at.copy_from_slice(&number.to_le_bytes()),
            None => bail!("the bundle has no {name} that is packed"),
        }
        Ok(())
    }

    fn write(&self, directory: &Path) {
        for (name, content) in &self.0 {
            // A bundle that lacks a file is not loaded, and that is noticed.
            let _ = fs::write(directory.join(name), content);
        }
    }
}
