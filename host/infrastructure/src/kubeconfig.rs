//! Kubeconfigs that an Infrastructure Manager (IM) hands over, or a user: what is stored, and what is needed to ask the API server.
//!
//! Whoever uses the Secret trusts it. So what names a program or a file is never stored: `kubectl` would run or read it on the user's
//! machine. No message repeats anything of a kubeconfig.

mod access;
mod probe;
mod read;

use serde_json::Value;

use super::im::Hidden;

pub(crate) use self::probe::{Probed, Prober};

use self::access::Access;

/// The largest kubeconfig, in bytes.
pub(crate) const KUBECONFIG_BYTES_MAX: usize = 64 * 1024;

/// A kubeconfig with one cluster, one user and one context, and everything inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kubeconfig {
    text: Hidden,
    access: Access,
}

/// Why there is no usable kubeconfig. The sentences repeat nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KubeconfigProblem {
    /// There is none yet.
    #[error("the output kubeconfig is empty or missing")]
    Missing,
    /// It cannot be used.
    #[error("the kubeconfig cannot be used: {0}")]
    Invalid(&'static str),
    /// Its certificates or keys cannot be used; the sentence names the field.
    #[error("the kubeconfig cannot be used: {0}")]
    Certificates(String),
    /// It names files or programs.
    #[error("the kubeconfig is not stored, since it is not safe: {0}")]
    Unsafe(&'static str),
}

impl Kubeconfig {
    /// Reads the output of a template: a text, or an object of the same form.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    pub(crate) fn of_output(output: Option<&Value>) -> Result<Self, KubeconfigProblem> {
        match output {
            None | Some(Value::Null) => Err(KubeconfigProblem::Missing),
            Some(Value::String(text)) => Self::parse(text),
            Some(Value::Object(fields)) if fields.is_empty() => Err(KubeconfigProblem::Missing),
            Some(object @ Value::Object(_)) => Self::parse(&object.to_string()),
            Some(_) => Err(KubeconfigProblem::Invalid(
                "it is neither a text nor an object",
            )),
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    pub(crate) fn parse(text: &str) -> Result<Self, KubeconfigProblem> {
        if text.trim().is_empty() {
            return Err(KubeconfigProblem::Missing);
        }
        if text.len() > KUBECONFIG_BYTES_MAX {
            return Err(KubeconfigProblem::Invalid("it is larger than 64 KiB"));
        }
        let access = read::access(text)?;
        Ok(Self {
            text: Hidden::new(text),
            access,
        })
    }

    /// Returns the text as it was given. Use it for nothing but the Secret.
    pub(crate) fn reveal(&self) -> &str {
        self.text.reveal()
    }
}

#[cfg(test)]
mod tests;
