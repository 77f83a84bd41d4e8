//! `podloom run`: the operator.

mod checks;
mod client;
mod connections;
mod duty;
#[cfg(test)]
mod fixtures;
mod grants;
mod leader;
mod lease;
mod metrics;
mod preflight;
mod process;
mod reload;
mod requests;
mod server;
mod state;
mod tasks;
mod wiring;

use std::time::Duration;

use anyhow::Context;

use crate::cli::RunArguments;
use crate::log::Filter;
use crate::refusal::Failure;

/// Compiling and calling plugins happens on threads of their own; more of them than the engine lets run only wait.
const BLOCKING_THREADS: usize = 32;

/// Runs the operator until it is told to stop.
pub(crate) fn run(arguments: &RunArguments, log: Filter) -> Result<(), Failure> {
    let needs_chain = arguments.controllers.need_chain();
    if needs_chain && arguments.plugins.is_none() && !arguments.allow_empty_chain {
        return Err(Failure::Usage(
            "name the directory of the plugin chain with --plugins DIR, or say --allow-empty-chain to run without plugins"
                .to_owned(),
        ));
    }
    if arguments.controllers.duties().is_empty() {
        tracing::warn!(
            "no controller is switched on: nothing is done but to answer over HTTP; name some with --controllers"
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("could not start the threads of the operator")?;
    let done = runtime.block_on(tasks::run(arguments, log));
    // A plugin that is being compiled has nothing to finish.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(done?)
}
