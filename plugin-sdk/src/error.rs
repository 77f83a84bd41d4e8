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
    /// The value is not of the type that a pod has at this path, or the API server refuses it there.
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

/// How many bytes the reasons of a denial have. The API server's answer has 4096 with everything else.
const REASONS: usize = 3500;

/// Why a plugin did not mutate a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The pod must not exist like this. Always final, and the user reads the reason: say what to change.
    Denied(String),
    /// The plugin could not do its work. The chain's failure policy decides what that means.
    Failed(String),
}

impl Rejection {
    /// Denies the pod for all of these reasons at once, so that its author can fix it in one go; `Ok` if there are none.
    ///
    /// Begin with the worst: what is beyond 3500 bytes is counted.
    ///
    /// ```
    /// use podloom_plugin_sdk::Rejection;
    ///
    /// let mut reasons = Vec::new();
    /// assert_eq!(Rejection::deny_if_any(&reasons), Ok(()));
    /// reasons.push("label team is missing: set it".to_owned());
    /// reasons.push("label tier is missing: set it".to_owned());
    /// let both = "label team is missing: set it; label tier is missing: set it";
    /// assert_eq!(Rejection::deny_if_any(&reasons), Err(Rejection::Denied(both.to_owned())));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`](Self::Denied) with the reasons.
    pub fn deny_if_any(reasons: &[String]) -> Result<(), Self> {
        let Some((first, others)) = reasons.split_first() else {
            return Ok(());
        };
        let mut text = first.clone();
        for (index, reason) in others.iter().enumerate() {
            if text.len() + reason.len() > REASONS {
                let more = others.len() - index;
                text.push_str(&format!("; and {more} more reasons"));
                break;
            }
            text.push_str("; ");
            text.push_str(reason);
        }
        Err(Self::Denied(text))
    }
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
