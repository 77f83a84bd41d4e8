//! The pods on which chains are tried: those of files, or of a cluster.

mod cluster;
mod files;
mod objects;
mod scope;

use std::path::Path;

use serde::Serialize;
use tokio::sync::mpsc::Sender;

use self::files::Files;

pub(crate) use self::objects::{KINDS, Submitted, cleaned, submitted};
pub(crate) use self::scope::{Reading, Scope, field, name};
use crate::cli::{Against, PodArguments};
use crate::error::{CommandError, Diagnostic};
use crate::output;
use crate::render::pod::Subject;

/// A pod before any chain.
pub(crate) struct FoundPod {
    pub(crate) namespace: String,
    /// As `Deployment shop/web`.
    pub(crate) name: String,
    pub(crate) subject: Subject,
}

/// Something that is left out.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Skipped {
    /// What, in the plural: `CronJobs`.
    pub(crate) what: String,
    /// Why.
    pub(crate) why: String,
}

/// Pods, one after the other.
pub(crate) struct Feed(Source);

enum Source {
    Files(Files),
    Cluster(Scope),
}

impl Feed {
    /// Reads and checks the files. The cluster is read later, by pages.
    pub(crate) fn open(arguments: &PodArguments) -> Result<Self, CommandError> {
        Ok(Self(match arguments.against {
            Some(Against::Cluster) => Source::Cluster(arguments.into()),
            None => Source::Files(Files::read(arguments)?),
        }))
    }

    /// Sends all pods; returns what is left out, and why. Ends early if nobody takes them any more.
    pub(crate) async fn run(self, pods: Sender<FoundPod>) -> Result<Vec<Skipped>, CommandError> {
        match self.0 {
            Source::Files(files) => {
                let skipped = files.skipped();
                for pod in files.pods() {
                    if pods.send(pod?).await.is_err() {
                        break;
                    }
                }
                Ok(skipped)
            }
            Source::Cluster(scope) => cluster::send(scope, pods).await,
        }
    }
}

/// The pods of a directory of recorded manifests. Warns of what is left out.
pub(crate) fn corpus(
    directory: &Path,
    namespace: &str,
) -> Result<impl Iterator<Item = Result<FoundPod, CommandError>>, CommandError> {
    let files = Files::of_corpus(directory, namespace)?;
    for Skipped { what, why } in files.skipped() {
        output::warn(&Diagnostic::new(format!("skipped: {what}: {why}")));
    }
    Ok(files.pods())
}

/// Finding no pod is an error, since an empty report would look like success.
pub(crate) fn no_pod(skipped: &[Skipped]) -> CommandError {
    let mut message =
        "found no pod: there is no Pod, no object with a pod template, and no Browser".to_owned();
    for Skipped { what, why } in skipped {
        message += &format!("\nskipped: {what}: {why}");
    }
    CommandError::invalid(message)
}
