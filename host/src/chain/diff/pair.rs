//! The two chains, and one pod on its way through both.

use std::path::Path;
use std::sync::Arc;

use podloom_mutators::{Chain, Engine};

use crate::cli::ChainSource;
use crate::compare::difference::{Difference, OwnContainers};
use crate::compare::outcome::Outcome;
use crate::error::CommandError;
use crate::feed::FoundPod;
use crate::load;
use crate::mutator::{ChainMutator, ChainPanicked};
use crate::render::pod::Subject;

/// The chain that serves now, and the one that shall replace it. Pods pass them as in the webhook.
pub(super) struct Pair {
    old: ChainMutator,
    new: ChainMutator,
}

/// A pod, and what is different between what the chains make of it.
pub(super) struct Compared {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) difference: Option<Difference>,
}

impl Pair {
    /// Reads and compiles both.
    pub(super) fn load(old: &ChainSource, new: &ChainSource) -> Result<Self, CommandError> {
        let engine = load::engine_for_many_pods()?;
        let load = |source: &ChainSource| match source {
            ChainSource::None => Ok(ChainMutator::of(None)),
            ChainSource::Directory(directory) => {
                chain(&engine, directory).map(|chain| ChainMutator::of(Some(chain)))
            }
        };
        Ok(Self {
            old: load(old)?,
            new: load(new)?,
        })
    }

    /// Passes a pod through both chains.
    pub(super) async fn compare(&self, pod: FoundPod) -> Result<Compared, ChainPanicked> {
        let FoundPod {
            namespace,
            name,
            subject,
        } = pod;
        let Subject { pod, request } = subject;
        let own = OwnContainers::of(&pod);
        let old = self.old.pass(pod.clone(), request.clone());
        let new = self.new.pass(pod, request);
        let (old, new) = tokio::join!(old, new);
        let difference = Difference::between(&own, Outcome::of(old?), Outcome::of(new?));
        Ok(Compared {
            namespace,
            name,
            difference,
        })
    }
}

fn chain(engine: &Arc<Engine>, directory: &Path) -> Result<Chain, CommandError> {
    let bundle = load::bundle(directory)?;
    load::compile(engine, directory, &bundle)
}
