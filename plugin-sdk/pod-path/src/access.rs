//! What one plugin may do.

use crate::grant::Grants;
use crate::grant::tree::{Coverage, Tree};

/// What a plugin may do. Made once per plugin, shared by all its runs.
///
/// ```
/// use podloom_pod_path::{Access, Grants, Transaction};
/// use serde_json::json;
///
/// let reads = Grants::parse(&["/metadata"])?;
/// let writes = Grants::parse_writes(&["/metadata/labels"])?;
/// let access = Access::new(reads, writes);
/// let mut pod = Transaction::begin(json!({ "spec": {} }), access.into(), [].into());
/// assert!(pod.set("/metadata/labels/team", "\"web\"".to_owned()).is_ok());
/// assert!(pod.set("/spec/hostNetwork", "true".to_owned()).is_err());
/// # Ok::<(), podloom_pod_path::GrantError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Access {
    reads: Grants,
    writes: Grants,
    /// Both.
    tree: Tree,
    /// How much it may do.
    pub limits: AccessLimits,
}

impl Access {
    /// What a plugin may read and write, within the default limits. What it may write it may read too.
    #[must_use]
    pub fn new(reads: Grants, writes: Grants) -> Self {
        Self {
            tree: Tree::new(&reads, &writes),
            reads,
            writes,
            limits: AccessLimits::default(),
        }
    }

    /// The whole pod for reading, and everything but what is never written for writing, within the default limits.
    #[must_use]
    pub fn unrestricted() -> Self {
        Self::new(Grants::everything(), Grants::everything())
    }

    /// What it may read, besides what it may write.
    #[must_use]
    pub fn reads(&self) -> &Grants {
        &self.reads
    }

    /// What it may write, and so read too.
    #[must_use]
    pub fn writes(&self) -> &Grants {
        &self.writes
    }

    pub(crate) fn coverage(&self) -> Coverage<'_> {
        Coverage::at_root(&self.tree)
    }
}

/// How much one run of a plugin may do. What exceeds a limit ends the run.
///
/// ```
/// use podloom_pod_path::AccessLimits;
///
/// let limits = AccessLimits { writes: 100, ..AccessLimits::default() };
/// assert_eq!(limits.pod_bytes, 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessLimits {
    /// Calls of `get`, `view` and `keys`. Default: 100,000.
    pub reads: usize,
    /// Bytes of what those calls answered, besides 32 for each key and 512 for each segment of the fields of a view, which is what
    /// the host needs for them. Default: 64 MiB.
    pub read_bytes: usize,
    /// Calls of `set`, `insert` and `remove`, whether or not they change anything. Default: 10,000.
    pub writes: usize,
    /// Bytes of the paths and values in those calls. Default: 4 MiB.
    pub written_bytes: usize,
    /// Bytes of one path. Default: 1 KiB. It never has more than 64 segments.
    pub path_bytes: usize,
    /// Levels of objects and lists from the root of the pod down to the deepest in a written value. Default: 64.
    pub value_depth: usize,
    /// Bytes of the pod as JSON, nearly: it is measured each time another sixteenth of this was written. Default: 1 MiB.
    pub pod_bytes: usize,
    /// Bytes of memory, nearly, that what is written takes: in the pod, and in the log by which it can be taken back. Runs of a
    /// chain share this, see [`Transaction::holding`](crate::Transaction::holding). Default: 16 MiB.
    pub memory: usize,
}

impl Default for AccessLimits {
    fn default() -> Self {
        Self {
            reads: 100_000,
            read_bytes: 64 * 1024 * 1024,
            writes: 10_000,
            written_bytes: 4 * 1024 * 1024,
            path_bytes: 1024,
            value_depth: 64,
            pod_bytes: 1024 * 1024,
            memory: 16 * 1024 * 1024,
        }
    }
}
