//! `podloom chain diff`: what becomes different if one chain replaces another.
//!
//! What is different between two pods is found in `compare`.

pub(crate) mod report;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use futures::{StreamExt, stream};
use podloom_mutators::{Chain, Engine};
use tokio::sync::mpsc::{self, Receiver};

use self::report::Words;
use crate::ci::Report;
use crate::cli::DiffArguments;
use crate::compare::groups::{Groups, Kept};
use crate::compare::{Difference, OwnContainers, outcome};
use crate::error::CommandError;
use crate::feed::{Feed, FoundPod, block_on, no_pod};
use crate::load;
use crate::mutator::{ChainMutator, ChainPanicked};
use crate::output::Progress;
use crate::render::pod::Subject;

/// How many pods wait for the chains.
const QUEUE: usize = 64;

/// Runs both chains on all pods, and prints the differences.
pub(crate) fn run(arguments: &DiffArguments) -> Result<(), CommandError> {
    let DiffArguments { old, new, .. } = arguments;
    // What is different is the doing of the new chain.
    let blamed = if new.as_os_str() == NONE { old } else { new };
    let mut found = Report::new(load::manifest(blamed));
    let done = compare_and_print(arguments, &mut found);
    found.finish(arguments.output.report(), done)
}

fn compare_and_print(arguments: &DiffArguments, found: &mut Report) -> Result<(), CommandError> {
    let feed = Feed::open(&arguments.pods)?;
    let engine = load::engine_for_many_pods()?;
    let chains = [
        chain(&engine, &arguments.old)?,
        chain(&engine, &arguments.new)?,
    ];
    let lines = chains[1].iter().flat_map(Chain::plugins);
    let lines: HashMap<String, u64> = lines.map(|it| (it.name.clone(), it.line)).collect();
    // Pods pass them as in the webhook.
    let chains = chains.map(ChainMutator::of);
    let kept = Kept {
        names: arguments.names,
        values: arguments.show_values,
        ..Kept::OF_A_COMMAND
    };
    let (pods, queue) = mpsc::channel(QUEUE);
    let both = async { tokio::try_join!(feed.run(pods), collect(queue, &chains, kept)) };
    let (skipped, groups) = block_on(both)?;
    if groups.all.pods == 0 {
        return Err(no_pod(&skipped));
    }
    report::print(&groups, &skipped, arguments.output, &Words::OF_CHAINS)?;
    report::add(&groups, &skipped, &lines, (arguments.exit_code, found));
    match arguments.exit_code && !groups.is_empty() {
        true => Err(CommandError::Different),
        false => Ok(()),
    }
}

async fn collect(
    queue: Receiver<FoundPod>,
    chains: &[ChainMutator; 2],
    kept: Kept,
) -> Result<Groups, CommandError> {
    let mut groups = Groups::new(kept);
    let mut progress = Progress::new("pods compared");
    // Enough that no processor waits for the next pod.
    let at_once = 2 * available_parallelism().map_or(1, usize::from);
    let pods = stream::unfold(queue, async |mut queue| {
        queue.recv().await.map(|pod| (pod, queue))
    });
    let mut compared = pods
        .map(|pod| compare(chains, pod))
        .buffered(at_once)
        .boxed_local();
    while let Some(compared) = compared.next().await {
        let (namespace, name, difference) = compared.map_err(anyhow::Error::new)?;
        groups.add(&namespace, &name, difference);
        progress.reached(groups.all.pods);
    }
    Ok(groups)
}

// The two chains, and one pod on its way through both.

/// Stands for no chain in place of a directory.
const NONE: &str = "none";

/// Reads and compiles a chain.
fn chain(engine: &Arc<Engine>, directory: &Path) -> Result<Option<Chain>, CommandError> {
    if directory.as_os_str() == NONE {
        return Ok(None);
    }
    load::compile(engine, directory, &load::bundle(directory)?).map(Some)
}

/// The namespace and the name of a pod, and what is different between what the chains make of it.
type Compared = (String, String, Option<Difference>);

/// Passes a pod through both chains, the old one and the new one.
async fn compare(chains: &[ChainMutator; 2], pod: FoundPod) -> Result<Compared, ChainPanicked> {
    let FoundPod {
        namespace,
        name,
        subject: Subject { pod, request },
        ..
    } = pod;
    let own = OwnContainers::of(&pod);
    let [old, new] = chains;
    let old = old.pass(pod.clone(), request.clone());
    let new = new.pass(pod, request);
    let (old, new) = tokio::join!(old, new);
    let difference = Difference::between(&own, outcome(old?), outcome(new?));
    Ok((namespace, name, difference))
}

#[cfg(test)]
mod tests;
