//! `podloom chain diff`: what becomes different if one chain replaces another.
//!
//! What is different between two pods is found in `compare`.

mod report;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use podloom_mutators::{Chain, Engine};
use tokio::sync::mpsc;
use tokio::sync::mpsc::Receiver;

use self::report::Report;
use crate::cli::{ChainSource, DiffArguments};
use crate::compare::groups::{Groups, Kept, Limits};
use crate::compare::{Difference, Outcome, OwnContainers};
use crate::error::CommandError;
use crate::feed::{Feed, FoundPod, Skipped, block_on, no_pod};
use crate::mutator::{ChainMutator, ChainPanicked};
use crate::render::pod::Subject;
use crate::{load, output};

/// How many pods wait for the chains.
const QUEUE: usize = 64;
/// How often the progress is shown.
const SHOWN: Duration = Duration::from_millis(200);

/// Runs both chains on all pods, and prints the differences.
pub(crate) fn run(arguments: &DiffArguments) -> Result<(), CommandError> {
    let feed = Feed::open(&arguments.pods)?;
    let pair = Pair::load(&arguments.old, &arguments.new)?;
    let kept = Kept {
        names: arguments.names,
        repeats: true,
        values: arguments.show_values,
        reasons: true,
        limits: Limits::OF_A_COMMAND,
    };
    let (groups, skipped) = block_on(compare(feed, &pair, kept))?;
    if groups.all.pods == 0 {
        return Err(no_pod(&skipped));
    }
    let report = Report {
        groups: &groups,
        skipped: &skipped,
    };
    report::print(&report, arguments.output)?;
    match arguments.exit_code && !groups.is_empty() {
        true => Err(CommandError::Different),
        false => Ok(()),
    }
}

async fn compare(
    feed: Feed,
    pair: &Pair,
    kept: Kept,
) -> Result<(Groups, Vec<Skipped>), CommandError> {
    let (pods, queue) = mpsc::channel(QUEUE);
    let feeding = feed.run(pods);
    let (skipped, groups) = tokio::try_join!(feeding, collect(queue, pair, kept))?;
    Ok((groups, skipped))
}

async fn collect(
    queue: Receiver<FoundPod>,
    pair: &Pair,
    kept: Kept,
) -> Result<Groups, CommandError> {
    let mut groups = Groups::new(kept);
    let mut progress = Progress::new();
    // Enough that no processor waits for the next pod.
    let at_once = 2 * available_parallelism().map_or(1, usize::from);
    let pods = stream::unfold(queue, async |mut queue| {
        queue.recv().await.map(|pod| (pod, queue))
    });
    let mut compared = pods
        .map(|pod| pair.compare(pod))
        .buffered(at_once)
        .boxed_local();
    while let Some(compared) = compared.next().await {
        let compared = compared.map_err(anyhow::Error::new)?;
        groups.add(&compared.namespace, &compared.name, compared.difference);
        progress.show(groups.all.pods);
    }
    progress.clear();
    Ok(groups)
}

/// Counts pods on a terminal, if it takes long.
struct Progress {
    /// None if standard error is no terminal.
    shown: Option<Instant>,
    is_there: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            shown: std::io::stderr().is_terminal().then(Instant::now),
            is_there: false,
        }
    }

    fn show(&mut self, pods: u64) {
        if self.shown.is_some_and(|shown| shown.elapsed() > SHOWN) {
            self.shown = Some(Instant::now());
            self.is_there = true;
            output::print_note(&format!("\r{pods} pods compared"));
        }
    }

    fn clear(&self) {
        if self.is_there {
            output::print_note("\r\x1b[K");
        }
    }
}

// The two chains, and one pod on its way through both.

/// The chain that serves now, and the one that shall replace it. Pods pass them as in the webhook.
struct Pair {
    old: ChainMutator,
    new: ChainMutator,
}

/// A pod, and what is different between what the chains make of it.
struct Compared {
    namespace: String,
    name: String,
    difference: Option<Difference>,
}

impl Pair {
    /// Reads and compiles both.
    fn load(old: &ChainSource, new: &ChainSource) -> Result<Self, CommandError> {
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
    async fn compare(&self, pod: FoundPod) -> Result<Compared, ChainPanicked> {
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

#[cfg(test)]
mod tests;
