//! What the answers of IM depend on, besides IM itself.

use crate::resolve::Backend;

/// What the answers of IM depend on, besides IM itself. If it changes, a request that failed is worth another try at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inputs {
    /// The generation of the Cluster's spec.
    pub(crate) generation: Option<i64>,
    pub(crate) is_deleted: bool,
    /// What somebody asks for with an annotation, so that nobody has to wait until a deletion that fails is tried again.
    pub(crate) on_delete: OnDelete,
    pub(crate) backend: Option<Backend>,
    /// The versions of the Secrets that a request needs; none of one that is missing or may not be read.
    pub(crate) secrets: Vec<Option<String>>,
}

impl Inputs {
    /// Whether the others have the same Cloud, provider and Secrets.
    pub(crate) fn has_backend_of(&self, other: &Self) -> bool {
        self.backend == other.backend && self.secrets == other.secrets
    }
}

/// How a Cluster that is being deleted ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDelete {
    /// When IM has deleted everything.
    Wait,
    /// IM may give up what it cannot delete.
    Force,
    /// Without IM.
    Abandon,
}
