//! Loads the chain that serves, and the candidate that is only compared with it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::{self, BoxFuture};
use kube::Client;
use podloom_controllers::{Events, UnreadNamespaces, namespaces_are_refused};
use podloom_mutators::{
    Admit, Chain, Engine, EngineOptions, InstanceAllocation, Loader, WatchMode,
};
use podloom_turns::{Limits, Lines};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::Receiver;

use super::candidate::{Beside, Files};
use super::metrics::ChainMetrics;
use super::own_pod;
use super::parts::Parts;
use super::reload::ReloadReporter;
use super::state::OperatorState;
use crate::mutator::Seen;

/// The most pods of one tenant that pass the chain at once. A call takes a fraction of a millisecond, and each slot reserves memory.
const MAX_AT_ONCE: usize = 4;
/// The fewest. A plugin may take long, and the next pod must not wait for that even on one processor.
const MIN_AT_ONCE: usize = 2;
/// How many pods may wait for the chain. The API server has at most 600 requests under way by default.
const WAITING: usize = 1024;

/// How long loading a chain may take. Twenty plugins compile in seconds and are proved in less than one.
const BUILD_TIMEOUT: Duration = Duration::from_secs(300);

/// Loads the chains, at the start and whenever their directories change, until the operator is stopped.
pub(super) type Loading = BoxFuture<'static, ()>;

/// Builds the loaders of the chain and of the candidate, which gets these pods. If no duty needs a chain, there is no engine, no
/// instance pool and no loader.
pub(super) fn of(
    parts: &Parts<'_>,
    state: &OperatorState,
    seen: Option<Receiver<Seen>>,
    registry: &mut Registry,
) -> Result<Loading> {
    if !state.needs_chain() {
        tracing::info!("no enabled duty needs the plugin chain, so none is loaded");
        return Ok(state.stop.clone().cancelled_owned().boxed());
    }
    let engine = parts.arguments.plugins.is_some().then(engine).transpose()?;
    let candidate = candidate(parts, state, engine.clone(), seen);
    let serving = serving(parts, state, engine, registry)?;
    // The candidate's does not end before the operator is stopped.
    Ok(future::select(serving, candidate).map(drop).boxed())
}

fn serving(
    parts: &Parts<'_>,
    state: &OperatorState,
    engine: Option<Arc<Engine>>,
    registry: &mut Registry,
) -> Result<Loading> {
    let (arguments, stop) = (parts.arguments, state.stop.clone());
    let Some((directory, engine)) = arguments.plugins.clone().zip(engine) else {
        tracing::warn!("there is no plugin chain, so pods are created as rendered");
        return Ok(stop.cancelled_owned().boxed());
    };
    let (queue, events) = Events::new(
        &parts.client,
        parts.instance.as_deref(),
        "ReloadChain",
        parts.metrics.events.clone(),
    );
    let reporter = ReloadReporter {
        // Without a chain there is nothing to show: a 0 would look like one that was rejected.
        metrics: ChainMetrics::register(registry, parts.plugins.clone()),
        events: own_pod::reference(&arguments.own_pod).map(|pod| (queue, pod)),
        history: state.history.clone(),
        granted: Mutex::default(),
    };
    let loader = Loader {
        name: "plugins",
        directory,
        engine,
        slot: Arc::clone(&state.slot),
        signers: arguments.signers(),
        admit: admit(parts.client.clone(), arguments.unread_namespaces()),
        watch: WatchMode::Notified,
        scan_interval: arguments.plugins_scan,
        build_timeout: BUILD_TIMEOUT,
        report: Arc::new(move |reload| reporter.report(reload)),
        recorder: parts.loops.clone(),
    };
    let loading = async move {
        tokio::join!(loader.run(stop), events);
    };
    Ok(loading.boxed())
}

/// Starts what compares pods, too. Whatever fails here, the operator works without it.
fn candidate(
    parts: &Parts<'_>,
    state: &OperatorState,
    engine: Option<Arc<Engine>>,
    seen: Option<Receiver<Seen>>,
) -> Loading {
    let (arguments, stop) = (parts.arguments, state.stop.clone());
    let (directory, candidate) = (arguments.candidate.clone(), state.candidate.as_ref());
    let Some(((directory, candidate), seen)) = directory.zip(candidate).zip(seen) else {
        return stop.cancelled_owned().boxed();
    };
    let beside = Beside {
        slot: Arc::clone(&state.slot),
        engine,
    };
    let files = Files {
        directory,
        signers: arguments.signers(),
        scan_interval: arguments.plugins_scan,
        build_timeout: BUILD_TIMEOUT,
        recorder: parts.loops.clone(),
    };
    let begun = candidate.begin(beside, files, seen, stop.clone());
    begun.unwrap_or_else(|error| {
        let error = format!("{error:#}");
        tracing::error!(error, "the candidate is not compared");
        stop.cancelled_owned().boxed()
    })
}

/// A chain that needs labels or annotations of namespaces serves only where these may be read.
fn admit(client: Client, unread: UnreadNamespaces) -> Admit {
    Arc::new(move |chain: &Chain| {
        let mut needing = chain.plugins().iter().filter(|it| it.needs_namespaces());
        let plugin = needing.next().map(|plugin| plugin.name.clone());
        let client = client.clone();
        async move {
            let Some(plugin) = plugin.filter(|_| unread == UnreadNamespaces::Refused) else {
                return Ok(());
            };
            // Without an answer, each pod whose namespace is not known is refused.
            match namespaces_are_refused(&client).await {
                false => Ok(()),
                true => Err(format!(
                    "plugin {plugin} needs the labels or annotations of namespaces, which the operator may not read: grant it to list \
                     and watch namespaces, or start it with --allow-unread-namespaces, and namespaces have none for plugins"
                )),
            }
        }
        .boxed()
    })
}

fn engine() -> Result<Arc<Engine>> {
    let options = EngineOptions {
        // Whoever calls the chain has a turn, so no call waits for a permit.
        permits: NonZeroUsize::new(turns().turns),
        instances: InstanceAllocation::Pooled,
        lines: Some(Lines::default()),
        ..EngineOptions::default()
    };
    Engine::new(&options).context("cannot start the WebAssembly engine")
}

/// How many pods pass the chain at once.
pub(super) fn turns() -> Limits {
    Limits::for_each(at_once(processors()), WAITING)
}

/// How many of one tenant that is alone: more would only wait for a processor.
fn at_once(processors: usize) -> usize {
    processors.clamp(MIN_AT_ONCE, MAX_AT_ONCE)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests;
