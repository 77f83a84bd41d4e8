//! The requests that change something.

use podloom_api::OperationKind;
use serde::Serialize;

/// A request that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Change {
    Create,
    /// Send what is different.
    Update,
    /// Send the last template again.
    Resend,
    Reconfigure,
    Start,
    Delete {
        force: bool,
    },
}

impl Change {
    /// The operation that it begins, if none is under way that it is part of.
    pub(crate) fn kind(self) -> OperationKind {
        match self {
            Self::Create => OperationKind::Create,
            Self::Update | Self::Resend => OperationKind::Update,
            Self::Reconfigure => OperationKind::Reconfigure,
            Self::Start => OperationKind::Start,
            Self::Delete { .. } => OperationKind::Delete,
        }
    }
}
