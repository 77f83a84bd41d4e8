//! The id of the loop, which is the directory, and the identity of its content.

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

/// The identity of a content: equal for equal content, wherever it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content(String);

impl Content {
    /// Of a bundle, or of the error in its place.
    pub(super) fn of(read: &Result<Bundle, BundleError>) -> Self {
        match read {
            Err(error) => Self(error.to_string()),
            Ok(bundle) => {
                let mut digests = file::sha256(bundle.manifest());
                if let Some(signature) = bundle.signature() {
                    digests.push_str(&format!(" signature {}", file::sha256(signature)));
                }
                for (name, bytes) in bundle.files() {
                    digests.push_str(&format!(" {name} {}", file::sha256(bytes)));
                }
                Self(digests)
            }
        }
    }
}
