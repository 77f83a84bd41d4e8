//! What one plugin may do.

use crate::grant::tree::{Coverage, Tree};
use crate::grant::{Disturbance, Grants};

/// What a plugin may do. Created once per plugin and shared by all its runs.
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
    /// Reads and writes together.
    tree: Tree,
    /// How much it may do.
    pub limits: AccessLimits,
}

impl Access {
    /// Grants reads and writes within the default limits. Paths that a plugin may write it may also read.
    #[must_use]
    pub fn new(reads: Grants, writes: Grants) -> Self {
        Self {
            tree: Tree::new(&reads, &writes),
            reads,
            writes,
            limits: AccessLimits::default(),
        }
    }

    /// Grants reading the whole pod and writing everything that plugins may ever write, within the default limits.
    #[must_use]
    pub fn unrestricted() -> Self {
        Self::new(Grants::everything(), Grants::everything())
    }

    /// The paths that it may read, besides those that it may write.
    #[must_use]
    pub fn reads(&self) -> &Grants {
        &self.reads
    }

    /// The paths that it may write, and therefore read.
    #[must_use]
    pub fn writes(&self) -> &Grants {
        &self.writes
    }

    /// How writes with this access can make a difference to a plugin with the other access. If there is no way, neither what it is
    /// answered nor what it writes depends on them.
    ///
    /// Holds for pods with metadata, a spec and a list of containers, as all pods of a cluster have, and as long as no limit is
    /// exceeded: the plugins of a chain share the limits on the size of the pod and of the logs of writes.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Disturbance, Grants};
    ///
    /// let access = |writes: &[&str]| Grants::parse_writes(writes).map(|it| Access::new(Grants::default(), it));
    /// let (node, host) = (access(&["/spec/nodeName"])?, access(&["/spec/hostNetwork"])?);
    /// assert_eq!(node.disturbs(&host), None);
    /// let (one, two) = (access(&["/spec/volumes/[name=a]"])?, access(&["/spec/volumes/[name=b]"])?);
    /// assert_eq!(one.disturbs(&two), Some(Disturbance::Adds("/spec/volumes".to_owned())));
    /// # Ok::<(), podloom_pod_path::GrantError>(())
    /// ```
    #[must_use]
    pub fn disturbs(&self, other: &Self) -> Option<Disturbance> {
        self.writes.disturb(&other.reads, &other.writes)
    }

    pub(crate) fn coverage(&self) -> Coverage<'_> {
        Coverage::at_root(&self.tree)
    }
}

/// How much one run of a plugin may do. Exceeding a limit ends the run.
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
    /// Bytes that those calls return, plus 32 for each key and 512 for each segment of the fields of a view, which is the memory that
    /// the host needs for them. Default: 64 MiB.
    pub read_bytes: usize,
    /// Calls of `set`, `insert` and `remove`, whether or not they change anything. Default: 10,000.
    pub writes: usize,
    /// Bytes of the paths and values in those calls. Default: 4 MiB.
    pub written_bytes: usize,
    /// Bytes of one path. Default: 1 KiB. A path never has more than 64 segments.
    pub path_bytes: usize,
    /// Levels of objects and lists from the root of the pod to the deepest value. Default: 64.
    pub value_depth: usize,
    /// Bytes of the pod as JSON, approximately: it is measured whenever another sixteenth of this was written. Default: 1 MiB.
    pub pod_bytes: usize,
    /// Bytes of memory that writes take, approximately: in the pod, and in the log for rolling back. The runs of a chain share this
    /// limit, see [`Transaction::holding`](crate::Transaction::holding). Default: 16 MiB.
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
