//! The pods on which both chains run.

mod cluster;
mod files;

use tokio::sync::mpsc::Sender;

use self::cluster::Cluster;
use self::files::Files;
use super::report::Skipped;
use crate::cli::{Against, DiffArguments};
use crate::error::CommandError;
use crate::render::pod::Subject;

/// A pod before any chain.
pub(super) struct Candidate {
    pub(super) namespace: String,
    /// As `Deployment shop/web`.
    pub(super) name: String,
    pub(super) subject: Subject,
}

/// Where the pods come from.
pub(super) enum Feed {
    Files(Files),
    Cluster(Cluster),
}

impl Feed {
    /// Reads and checks the files. The cluster is read later, by pages.
    pub(super) fn open(arguments: &DiffArguments) -> Result<Self, CommandError> {
        Ok(match arguments.against {
            Some(Against::Cluster) => Self::Cluster(Cluster::of(arguments)),
            None => Self::Files(Files::read(arguments)?),
        })
    }

    /// Sends all pods; returns what is left out, and why. Ends early if nobody takes them any more.
    pub(super) async fn run(
        self,
        candidates: Sender<Candidate>,
    ) -> Result<Vec<Skipped>, CommandError> {
        match self {
            Self::Files(files) => files.send(candidates).await,
            Self::Cluster(cluster) => cluster.send(candidates).await,
        }
    }
}
