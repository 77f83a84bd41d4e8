//! `podloom chain diff`: what becomes different if one chain replaces another.
//!
//! What is different between two pods is found in `compare`.

mod pair;
mod report;

use std::io::IsTerminal;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, stream};
use tokio::sync::mpsc::{self, Receiver};

use self::pair::Pair;
use self::report::Report;
use crate::cli::DiffArguments;
use crate::compare::groups::{Groups, Kept, Limits};
use crate::error::CommandError;
use crate::feed::{Feed, FoundPod, Skipped, no_pod};
use crate::output;

/// How many pods wait for the chains.
const QUEUE: usize = 64;
/// How often the progress is shown.
const SHOWN: Duration = Duration::from_millis(200);

/// Runs both chains on all pods, and prints the differences.
pub(crate) fn run(arguments: &DiffArguments) -> Result<(), CommandError> {
    let feed = Feed::open(&arguments.pods)?;
    let pair = Pair::load(&arguments.old, &arguments.new)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let kept = Kept {
        names: arguments.names,
        repeats: true,
        values: arguments.show_values,
        reasons: true,
        limits: Limits::OF_A_COMMAND,
    };
    let (groups, skipped) = runtime.block_on(compare(feed, &pair, kept))?;
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

#[cfg(test)]
mod tests;
