//! What one plugin may do.

use crate::grant::Grants;

/// What a plugin may do. Made once per plugin, shared by all its runs.
///
/// ```
/// use podloom_pod_path::{Access, Grants, Limits, Transaction};
/// use serde_json::json;
///
/// let access = Access {
///     reads: Grants::parse(&["/metadata"])?,
///     writes: Grants::parse_writes(&["/metadata/labels"])?,
///     limits: Limits::default(),
/// };
/// let mut pod = Transaction::begin(json!({ "spec": {} }), access.into(), [].into());
/// assert!(pod.set("/metadata/labels/team", "\"web\"".to_owned()).is_ok());
/// assert!(pod.set("/spec/hostNetwork", "true".to_owned()).is_err());
/// # Ok::<(), podloom_pod_path::GrantError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Access {
    /// What it may read, besides what it may write.
    pub reads: Grants,
    /// What it may write, and so read too.
    pub writes: Grants,
    /// How much it may do.
    pub limits: Limits,
}

impl Access {
    /// The whole pod for reading, and everything but what is never written for writing, within the default limits.
    #[must_use]
    pub fn unrestricted() -> Self {
        Self {
            reads: Grants::everything(),
            writes: Grants::everything(),
            limits: Limits::default(),
        }
    }
}

/// How much one run of a plugin may do. What exceeds a limit ends the run.
///
/// ```
/// use podloom_pod_path::Limits;
///
/// let limits = Limits { writes: 100, ..Limits::default() };
/// assert_eq!(limits.pod_bytes, 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls of `set`, `insert` and `remove`, whether or not they change anything. Default: 10,000.
    pub writes: usize,
    /// Bytes of the paths and values in those calls. Default: 4 MiB.
    pub written_bytes: usize,
    /// Bytes of one path. Default: 1 KiB.
    pub path_bytes: usize,
    /// Levels of objects and lists from the root of the pod down to the deepest in a written value. Default: 64.
    pub value_depth: usize,
    /// Bytes of the pod as JSON, nearly: it is measured each time another sixteenth of this was written. Default: 1 MiB.
    pub pod_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            writes: 10_000,
            written_bytes: 4 * 1024 * 1024,
            path_bytes: 1024,
            value_depth: 64,
            pod_bytes: 1024 * 1024,
        }
    }
}
