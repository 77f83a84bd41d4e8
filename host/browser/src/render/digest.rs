//! The hash of a BrowserConfig's merged configuration.

use podloom_api::{BrowserConfigSpec, SessionOptions};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::merge::EffectiveConfig;
use super::resolve::Pair;

/// The hash that `status.version` publishes: 16 hex digits over the merged configuration.
///
/// It changes when any pod would, and not when a setting only moves from the template into the versions.
#[derive(Default)]
pub(super) struct ConfigHash(Sha256);

impl ConfigHash {
    /// Adds a version as it is after merging.
    pub(super) fn add(&mut self, pair: Pair<'_>, effective: &EffectiveConfig) {
        self.0
            .update(sorted((pair.browser, pair.version, effective)));
    }

    /// Adds what sessions may ask for, if that is limited.
    pub(super) fn add_session_options(&mut self, allowed: Option<&SessionOptions>) {
        if let Some(allowed) = allowed {
            self.0.update(sorted(allowed));
        }
    }

    /// Adds everything as it is written, where merging would take too long.
    pub(super) fn add_unmerged(&mut self, spec: &BrowserConfigSpec) {
        self.0.update(sorted(spec));
    }

    pub(super) fn finish(self) -> String {
        let digest = self.0.finalize();
        digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Tells versions apart by what their pods are made from, without their names.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EffectiveDigest {
    sha256: [u8; 32],
    /// How many bytes of JSON the version has once it is merged.
    pub(crate) bytes: usize,
}

impl EffectiveDigest {
    pub(crate) fn of(effective: &EffectiveConfig) -> Self {
        let text = sorted(effective);
        Self {
            sha256: Sha256::digest(&text).into(),
            bytes: text.len(),
        }
    }
}

/// A value as JSON whose fields are in order of their names.
fn sorted(value: impl Serialize) -> String {
    serde_json::json!(value).to_string()
}
