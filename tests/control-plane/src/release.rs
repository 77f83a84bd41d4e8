//! The releases of Kubernetes that the tests can run on.

use std::env;

use crate::program::Program;
use crate::version::{self, Version};

/// The environment variable that chooses a release by its minor version, like `1.33`. Without it the tests run on the pinned one.
pub const KUBERNETES: &str = "PODLOOM_KUBERNETES";

/// A release of Kubernetes, and the Go module that pins its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its minor version, like `1.33`.
    pub minor: &'static str,
    pub(crate) directory: &'static str,
    pub(crate) go_mod: &'static str,
    pub(crate) go_sum: &'static str,
}

/// A release by its minor version and the directory of its module.
macro_rules! release {
    ($minor:literal, $directory:literal) => {
        Release {
            minor: $minor,
            directory: concat!(env!("CARGO_MANIFEST_DIR"), "/", $directory),
            go_mod: include_str!(concat!("../", $directory, "/go.mod")),
            go_sum: include_str!(concat!("../", $directory, "/go.sum")),
        }
    };
}

/// What all tests run on. Its module also pins what is no part of Kubernetes: etcd and KWOK.
pub(crate) const PINNED: Release = release!("1.36", "go");

/// Every release, the oldest first: the oldest that Podloom supports, the pinned one, and the newest.
pub const RELEASES: [Release; 3] = [
    release!("1.33", "releases/v1.33"),
    PINNED,
    release!("1.37", "releases/v1.37"),
];

/// The environment names a release that is not here.
#[derive(Debug, thiserror::Error)]
#[error("{KUBERNETES} is {found:?}; the releases are {known}")]
pub struct UnknownRelease {
    found: String,
    known: String,
}

impl Release {
    /// The release that the environment chooses.
    ///
    /// # Errors
    ///
    /// Fails if it names none of [`RELEASES`].
    pub fn chosen() -> Result<Self, UnknownRelease> {
        let chosen = env::var_os(KUBERNETES).filter(|minor| !minor.is_empty());
        chosen.map_or(Ok(PINNED), |minor| Self::named(&minor.to_string_lossy()))
    }

    /// Whether the tests run on this one if nothing else is chosen.
    #[must_use]
    pub fn is_pinned(self) -> bool {
        self == PINNED
    }

    /// Whether it is Kubernetes 1.`minor` or newer: for what an older API server does not know.
    #[must_use]
    pub fn is_at_least(self, minor: u32) -> bool {
        self.version(Program::ApiServer).minor >= minor
    }

    fn named(minor: &str) -> Result<Self, UnknownRelease> {
        let found = RELEASES.into_iter().find(|release| release.minor == minor);
        found.ok_or_else(|| UnknownRelease {
            found: minor.to_owned(),
            known: RELEASES.map(|release| release.minor).join(", "),
        })
    }

    /// The version that is pinned for a program of this release.
    pub(crate) fn version(self, program: Program) -> Version {
        version::pinned(program, self.source(program).go_mod)
    }

    /// The release whose Go module has the program: etcd and KWOK are the same for all.
    pub(crate) fn source(self, program: Program) -> Self {
        if program.is_kubernetes() {
            self
        } else {
            PINNED
        }
    }
}

#[cfg(test)]
mod tests;
