//! Errors of accesses to a pod.

use std::error::Error;
use std::fmt;

/// Why an access was refused. The text names the path and says what to do instead.
///
/// It is returned to the plugin, which may go on.
///
/// ```
/// use podloom_pod_path::{Access, AccessError, EditError, Transaction};
/// use serde_json::json;
///
/// let pod = Transaction::begin(json!({}), Access::unrestricted().into(), [].into());
/// let error = pod.get("spec").unwrap_err();
/// assert!(matches!(error, EditError::Access(AccessError::InvalidPath(_))));
/// assert_eq!(error.to_string(), "path \"spec\" is invalid: it must be empty or start with `/`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The path is malformed, goes through a scalar, or has a selector that matches several elements.
    InvalidPath(String),
    /// The path goes through a list element that does not exist.
    NotFound(String),
    /// The path was not granted, or plugins may never write it.
    Forbidden(String),
    /// The value is not JSON, not of the type that a pod has at this path, or one that the API server refuses there.
    InvalidValue(String),
}

impl AccessError {
    pub(crate) fn invalid_path(path: &str, reason: impl fmt::Display) -> Self {
        Self::InvalidPath(format!("path {path:?} is invalid: {reason}"))
    }

    pub(crate) fn invalid_value(path: &str, reason: impl fmt::Display) -> Self {
        Self::InvalidValue(format!("invalid value at {}: {reason}", shown(path)))
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPath(text)
            | Self::NotFound(text)
            | Self::Forbidden(text)
            | Self::InvalidValue(text) => f.write_str(text),
        }
    }
}

impl Error for AccessError {}

/// Returns the path as messages show it: the empty path is "the whole pod".
pub fn shown(path: &str) -> &str {
    if path.is_empty() {
        "the whole pod"
    } else {
        path
    }
}

/// Why an operation on a pod failed.
///
/// ```
/// use podloom_pod_path::{AccessError, EditError};
///
/// let error = EditError::from(AccessError::NotFound("nothing is there".to_owned()));
/// assert!(matches!(error, EditError::Access(_)), "the plugin may go on");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// The access was refused. The error is returned to the plugin, which may go on.
    Access(AccessError),
    /// The plugin has exceeded one of the [`AccessLimits`](crate::AccessLimits). Its run must be ended. The text says what it asked for.
    Limit(String),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => error.fmt(f),
            Self::Limit(text) => f.write_str(text),
        }
    }
}

impl Error for EditError {}

impl From<AccessError> for EditError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}
