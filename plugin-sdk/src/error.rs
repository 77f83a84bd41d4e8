//! Why an access was refused, and why a pod was.

use std::fmt;

/// Why an access to the pod failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The path is malformed, a selector in it matches several elements, or it leads through a scalar.
    InvalidPath(String),
    /// The path leads through an element or field that does not exist.
    NotFound(String),
    /// The plugin was not granted this path, or it may never be written.
    Forbidden(String),
    /// The value is not of the type that a pod has at this path.
    InvalidValue(String),
    /// What is at the path could not be read as the type that was asked for.
    Decode {
        /// The path that was read.
        path: String,
        /// What does not fit.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPath(message)
            | Self::NotFound(message)
            | Self::Forbidden(message)
            | Self::InvalidValue(message) => f.write_str(message),
            Self::Decode { path, message } => {
                f.write_str(path)?;
                f.write_str(": ")?;
                f.write_str(message)
            }
        }
    }
}

impl std::error::Error for Error {}

/// Why a plugin did not mutate a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The pod must not exist like this. Always final, and the user reads the reason: say what to change.
    Denied(String),
    /// The plugin could not do its work. The chain's failure policy decides what that means.
    Failed(String),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Denied(message) | Self::Failed(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Rejection {}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}
