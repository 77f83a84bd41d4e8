//! `podloom run`: the operator.

mod candidate;
mod chain_state;
mod checks;
mod cleaner;
mod connections;
mod drift;
mod duty;
mod exposition;
#[cfg(test)]
mod fixtures;
mod grants;
mod history;
mod infrastructure;
mod leader;
mod lease;
mod loading;
mod metrics;
mod own_pod;
mod parts;
mod portal;
mod preflight;
mod process;
mod reload;
mod server;
mod state;
mod tasks;
mod webhook;
mod wiring;

use std::time::Duration;

use anyhow::Context;

use crate::cli::RunArguments;
use crate::error::CommandError;
use crate::log::Filter;
use crate::traces::Exporter;

/// Plugins are compiled and called on blocking threads. The engine limits how many run at once, so more threads would only wait.
const BLOCKING_THREADS: usize = 32;

/// Runs the operator until a signal stops it.
pub(crate) fn run(
    arguments: &RunArguments,
    log: Filter,
    traces: Option<Exporter>,
) -> Result<(), CommandError> {
    let duties = arguments.duties();
    if arguments.needs_chain() && arguments.plugins.is_none() && !arguments.allow_empty_chain {
        return Err(CommandError::Usage(
            "no plugin chain: name its directory with --plugins DIR, or run without plugins with --allow-empty-chain"
                .to_owned(),
        ));
    }
    if !arguments.require_signature.is_empty() && arguments.allow_empty_chain {
        return Err(CommandError::Usage(
            "--require-signature and --allow-empty-chain contradict each other: without a chain that is signed, pods would be created without plugins"
                .to_owned(),
        ));
    }
    if arguments.candidate.is_some() && arguments.candidate == arguments.plugins {
        return Err(CommandError::Usage(
            "--candidate and --plugins name the same directory: give the candidate a directory of its own, for example a copy"
                .to_owned(),
        ));
    }
    let last = arguments.webhook.drain.saturating_add(webhook::LAST);
    if arguments.webhook.address.is_some() && last > arguments.shutdown_timeout {
        return Err(CommandError::Usage(format!(
            "--webhook-drain and {:?} for the last reviews do not fit into --shutdown-timeout {:?}: shorten the first or lengthen the second",
            webhook::LAST,
            arguments.shutdown_timeout
        )));
    }
    if arguments.webhook.address.is_none() && !arguments.webhook.drift_interval.is_zero() {
        return Err(CommandError::Usage(
            "--webhook-drift-interval needs --webhook: the replicas that serve the webhooks look for pods that missed them"
                .to_owned(),
        ));
    }
    if duties.is_empty() {
        tracing::warn!(
            "no controller is enabled, so the operator only answers over HTTP; enable one with --controllers, or the webhooks with --webhook"
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("could not start the operator's threads")?;
    let done = runtime.block_on(tasks::run(arguments, log, traces));
    // A compilation that still runs is dropped: it has nothing to finish.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(done?)
}
