//! The actions of a Cluster's plan, and their outcomes.

use std::fmt;

use jiff::Timestamp;
use podloom_api::{ClusterObject, ClusterStatus};
use podloom_engine::write::MetadataPatch;
use serde::Serialize;

use super::durable::Change;
use super::memory::OurSecret;
use super::world::{Prepared, SeenSecret};
use crate::im::{Answer, Failure, InfrastructureId};
use crate::in_use::Guard;
use crate::kubeconfig::Probed;
use crate::resolve::Trouble;

/// One action for a Cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Set or remove our finalizer, unless the Cluster has changed since it was read.
    SetMetadata(MetadataPatch),
    /// Ask whether Cloud and provider have the finalizer that keeps them.
    Guard,
    /// Read the Secrets that a request needs.
    Prepare,
    /// Write into the status what is about to be sent, unless the Cluster has changed since it was read.
    Record {
        change: Change,
        status: Box<ClusterStatus>,
    },
    /// Ask IM.
    Ask(Ask),
    /// Read the Secret for the kubeconfig from the API server.
    ReadSecret,
    /// Write the kubeconfig into its Secret.
    Store,
    /// Ask the API server of the cluster whether it answers.
    Probe,
    /// Write the status.
    WriteStatus(Box<ClusterStatus>),
}

/// A question to IM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Ask {
    /// To change something. It was recorded.
    Change(Change),
    /// For the infrastructure of the Cluster's name, among those that were not read yet.
    Search {
        skip: Vec<InfrastructureId>,
    },
    /// Whether the account still has the infrastructure that was deleted. It is not read: that could bring it back.
    Left(InfrastructureId),
    /// For the state of the infrastructure to take over.
    Adopt(InfrastructureId),
    /// For the name, since the provider has another URL than before: what has the same id there may be somebody else's.
    Name(InfrastructureId),
    State(InfrastructureId),
    Outputs(InfrastructureId),
    /// For the end of the log.
    Log(InfrastructureId),
    /// To let the account of now own the infrastructure, asked with the previous password.
    AddOwner(InfrastructureId),
}

/// What an action came to.
pub(crate) enum Outcome {
    /// The finalizer was written.
    Marked(Box<ClusterObject>),
    /// The API server rejected the finalizer, for this reason.
    MetadataRejected(String),
    Guard(Guard),
    Prepared(Prepared),
    /// A Secret that a request needs is missing.
    Missing(Trouble, Timestamp),
    /// The record was written; the Cluster as the API server answered.
    Recorded(Change, Box<ClusterObject>),
    /// IM was asked, or could not be.
    Asked(Asked),
    /// The Secret as the API server has it.
    Secret(SeenSecret),
    /// The Secret has the kubeconfig.
    Stored {
        secret: OurSecret,
        /// Whether anything had to be written.
        is_written: bool,
    },
    /// The API server rejected the Secret, for this reason.
    StoreRefused(String, Timestamp),
    /// Whether the API server of the cluster answered, and when.
    Probed(Probed, Timestamp),
    /// The status was written; the Cluster as the API server answered.
    StatusWritten(Box<ClusterObject>),
    /// The Cluster no longer exists.
    Gone,
}

/// What came of a question to IM.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) ask: Ask,
    pub(crate) reply: Reply,
    /// When it came.
    pub(crate) at: Timestamp,
}

/// What came of a question to IM.
pub(crate) enum Reply {
    /// An answer.
    Answer(Answer),
    /// What was found in the lists of the account.
    Found(Found),
    Failure(Failure),
    /// A Secret that the request needs is missing. Nothing was sent.
    Missing(Trouble),
    /// The record is too old: another process may have taken over. Nothing was sent.
    TooLate,
}

/// What a search found among the infrastructures that it read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// What it read.
    pub(crate) read: Vec<InfrastructureId>,
    /// What has the Cluster's name.
    pub(crate) matches: Vec<InfrastructureId>,
    /// Whether nothing is left to read.
    pub(crate) is_complete: bool,
}

impl fmt::Debug for Reply {
    /// Without the answer: it may be a kubeconfig.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(_) => f.write_str("Answer"),
            Self::Found(found) => found.fmt(f),
            Self::Failure(failure) => failure.fmt(f),
            Self::Missing(unresolved) => unresolved.fmt(f),
            Self::TooLate => f.write_str("TooLate"),
        }
    }
}
