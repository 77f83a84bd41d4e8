//! Why a node did not start, or no longer works.

use std::io;
use std::path::PathBuf;

use podloom_control_plane::{BuildError, CommandError, FindError, KubeconfigError, PATIENCE};
use podloom_image::ImageError;

use crate::possible::Impossible;

/// Why a node did not start, or no longer works.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// This machine cannot run one.
    #[error("this machine cannot run a real node")]
    Impossible(#[from] Impossible),
    /// A program of the control plane is missing.
    #[error("a program of the control plane is missing")]
    Find(#[from] FindError),
    /// A program of the node could not be built.
    #[error("a program of the node is missing")]
    Build(#[from] BuildError),
    /// A file could not be used.
    #[error("{}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A kubeconfig could not be written.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// An image could not be made.
    #[error("could not write the image")]
    Image(#[from] ImageError),
    /// A program did not start.
    #[error("could not start {program}")]
    Spawn {
        /// Which one.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program ended when it should have served.
    #[error("{program} ended; its log is {}, its last lines are:\n{output}", log.display())]
    Ended {
        /// Which one.
        program: String,
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
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
}
