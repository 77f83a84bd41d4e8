//! What the loop goes by: the directory, and the digest of what is in it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::bundle::{Bundle, BundleError};
use crate::file;

/// The one id of the loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Directory(Arc<Path>);

impl Directory {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Equal for equal content, however often and from wherever it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content(String);

impl Content {
    /// Of a bundle, or of what is there in place of one.
    pub(super) fn of(read: &Result<Bundle, BundleError>) -> Self {
        match read {
            Err(error) => Self(error.to_string()),
            Ok(bundle) => {
                let mut digests = file::sha256(bundle.manifest());
                for (name, bytes) in bundle.files() {
                    digests.push_str(&format!(" {name} {}", file::sha256(bytes)));
                }
                Self(digests)
            }
        }
    }
}
