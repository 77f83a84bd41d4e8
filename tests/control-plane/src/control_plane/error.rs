//! Why a control plane did not start, or no longer works.

use std::io;
use std::path::PathBuf;

use crate::kubeconfig::KubeconfigError;
use crate::program::Program;
use crate::programs::FindError;
use crate::wait::{CommandError, PATIENCE};

/// Why a control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A program is missing.
    #[error("a program of the control plane is missing")]
    Find(#[from] FindError),
    /// A file in the temporary directory could not be used.
    #[error("could not prepare the control plane's directory")]
    Directory(#[source] io::Error),
    /// A kubeconfig could not be written.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// A program did not start.
    #[error("could not start {}", program.name())]
    Spawn {
        /// Which one.
        program: Program,
        /// Why.
        source: io::Error,
    },
    /// A program could not be killed.
    #[error("could not kill {}", program.name())]
    Kill {
        /// Which one.
        program: Program,
        /// Why.
        source: io::Error,
    },
    /// A program ended when it should have served.
    #[error("{} ended; its log is {}, its last lines are:\n{output}", program.name(), log.display())]
    Ended {
        /// Which one.
        program: Program,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        output: String,
    },
    /// Something did not become ready.
    #[error("{what} is not ready after {} s; logs are in {}", PATIENCE.as_secs(), logs.display())]
    NotReady {
        /// What was waited for.
        what: &'static str,
        /// Where the logs are.
        logs: PathBuf,
    },
    /// kubectl failed.
    #[error(transparent)]
    Kubectl(#[from] CommandError),
}

impl StartError {
    /// Whether another process took one of our ports, so that a retry with other ports may succeed.
    pub(super) fn is_port_race(&self) -> bool {
        matches!(self, Self::Ended { output, .. } if output.contains("address already in use"))
    }
}
