//! Loads the chain that serves, and the candidate that is only compared with it; and reports each attempt.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use futures::{FutureExt, future};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use podloom_api::names::event;
use podloom_engine::events::{Events, Notice};
use podloom_engine::namespaces::{self, UnreadNamespaces};
use podloom_metrics::{By, metrics};
use podloom_mutators::{
    Admit, Chain, Engine, Loader, Plugin, PluginGrants, PluginMetrics, Reload, Slot, WatchMode,
};
use podloom_syntax::text;
use podloom_turns::lock;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::Receiver;

use super::capacity::serving_engine;
use super::history::History;
use super::metrics::{process_now, process_peak};
use super::parts::{Parts, own_pod};
use super::state::OperatorState;
use crate::mutator::Seen;
use crate::output::short;

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
    let loading = future::select(serving, candidate).map(drop);
    let Some(follower) = state.follower.clone() else {
        return Ok(loading.boxed());
    };
    let (stop, mut following) = (state.stop.clone(), follower.run());
    let loading = async move {
        tokio::select! {
            () = loading => {}
            () = &mut following => {}
        }
        if stop.is_cancelled() {
            // Reviews are answered for a while after that, and pods go where they should until the end.
            following.await;
        }
    };
    Ok(loading.boxed())
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
        events: own_pod(&arguments.own_pod).map(|pod| (queue, pod)),
        history: state.history.clone(),
        granted: Mutex::default(),
    };
    let report = Arc::new(move |reload: &Reload| reporter.report(reload));
    let using = (engine, Arc::clone(&state.slot));
    let loader = Loader {
        admit: admit(parts.client.clone(), arguments.unread_namespaces()),
        ..loader(parts, "plugins", directory, using, report)
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
    let reported = Arc::clone(candidate);
    let report = Arc::new(move |reload: &Reload| reported.report(reload));
    let admit = match candidate.split.is_some() {
        true => admit(parts.client.clone(), arguments.unread_namespaces()),
        // It gets pods of namespaces that are known, so any chain may be one.
        false => admit_any(),
    };
    let place = directory.clone();
    let loader = |using| Loader {
        admit,
        ..loader(parts, "candidate", directory, using, report)
    };
    let begun = candidate.begin(loader, (&state.slot, engine), seen, stop.clone());
    begun.unwrap_or_else(|error| {
        let error = format!("{error:#}");
        tracing::error!(error, "the candidate is not compared");
        candidate.fail(&place, &error);
        stop.cancelled_owned().boxed()
    })
}

/// Loads a directory into a slot, whatever its chain needs.
fn loader(
    parts: &Parts<'_>,
    name: &'static str,
    directory: PathBuf,
    (engine, slot): (Arc<Engine>, Arc<Slot>),
    report: Arc<dyn Fn(&Reload) + Send + Sync>,
) -> Loader {
    Loader {
        name,
        directory,
        engine,
        slot,
        signers: parts.arguments.signers(),
        admit: admit_any(),
        watch: WatchMode::Notified,
        scan_interval: parts.arguments.plugins_scan,
        build_timeout: BUILD_TIMEOUT,
        report,
        recorder: parts.loops.clone(),
    }
}

/// Any chain may do what this loader is for.
fn admit_any() -> Admit {
    Arc::new(|_| async { Ok(()) }.boxed())
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
            match namespaces::are_refused(&client).await {
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
    Engine::new(&serving_engine()).context("cannot start the WebAssembly engine")
}

metrics! {
    /// Metrics of chain reloads.
    struct ChainMetrics(plugins: PluginMetrics) {
        reloads: By<1> = "chain_reloads", "Attempts to load a chain, by outcome", By::new(["outcome"]);
        last_success: Gauge = "chain_last_reload_success_timestamp" Seconds, "When the active chain was loaded";
        compile_peak: Gauge = "compile_peak" Bytes, "Peak memory of the process by the time the active chain was loaded";
        loaded: Gauge = "chain_loaded", "1 if the active chain is what its directory contains, 0 if that was rejected or is not loaded yet";
    }
}

impl ChainMetrics {
    /// Counts an attempt.
    fn reloaded(&self, reload: &Reload) {
        self.reloads.of([reload.as_str()]).inc();
        self.plugins.reloaded(reload);
        let is_loaded = !matches!(reload, Reload::Refused { .. });
        self.loaded.set(i64::from(is_loaded));
        if let Reload::Swapped { .. } = reload {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let seconds = i64::try_from(now.unwrap_or_default().as_secs());
            self.last_success.set(seconds.unwrap_or(i64::MAX));
            self.compile_peak.set(process_peak().unwrap_or_default());
        }
    }
}

/// Reports each attempt to load a chain: in the log, the metrics, the console, and an Event on the operator's own pod.
struct ReloadReporter {
    metrics: ChainMetrics,
    /// The queue of Events and the operator's own pod, if its name is known.
    events: Option<(Events, ObjectReference)>,
    /// What the console shows; none if it is off.
    history: Option<Arc<History>>,
    /// The grants of the active chain; none before the first one.
    granted: Mutex<Option<Grants>>,
}

impl ReloadReporter {
    /// Reports one attempt.
    fn report(&self, reload: &Reload) {
        self.metrics.reloaded(reload);
        if let Some(history) = &self.history {
            history.attempted(reload);
        }
        match reload {
            Reload::Swapped { chain, took } => {
                let mebibytes = |bytes: Option<i64>| bytes.unwrap_or_default() >> 20;
                tracing::info!(
                    chain = chain.digest(),
                    plugins = ?names(chain, |_| true),
                    compiled = ?names(chain, |plugin| plugin.compiled_in.is_some()),
                    ?took,
                    compile_peak_mib = mebibytes(process_peak()),
                    memory_mib = mebibytes(process_now()),
                    "chain loaded"
                );
                self.log_changed_grants(chain);
                self.publish(Notice::normal(event::CHAIN_RELOADED, loaded(chain)));
            }
            Reload::Restored { chain } => {
                tracing::info!(
                    chain = chain.digest(),
                    "the plugin directory contains the active chain again"
                );
                self.publish(Notice::normal(event::CHAIN_RELOADED, loaded(chain)));
            }
            Reload::Refused {
                error,
                repeated: false,
            } => {
                tracing::error!(
                    error.type = error.reason, %error,
                    "rejected the new plugin chain, the last good one stays active if there is one"
                );
                let refused = format!("rejected the new content of the plugin directory: {error}");
                self.publish(Notice::warning(event::CHAIN_REFUSED, refused));
            }
            Reload::Refused { error, .. } => {
                tracing::debug!(error.type = error.reason, %error, "rejected the same plugin chain again");
            }
        }
    }

    fn log_changed_grants(&self, chain: &Chain) {
        let after = grants(chain);
        let mut granted = lock(&self.granted);
        for change in granted.iter().flat_map(|before| changes(before, &after)) {
            tracing::info!(
                plugin = change.plugin,
                allow_added = listed(&change.allow_added),
                allow_removed = listed(&change.allow_removed),
                read_added = listed(&change.read_added),
                read_removed = listed(&change.read_removed),
                "grants changed"
            );
        }
        *granted = Some(after);
    }

    fn publish(&self, notice: Notice) {
        if let Some((events, pod)) = &self.events {
            events.send(pod.clone(), notice);
        }
    }
}

fn names(chain: &Chain, which: impl Fn(&Plugin) -> bool) -> Vec<&str> {
    let plugins = chain.plugins().iter().filter(|plugin| which(plugin));
    plugins.map(|plugin| plugin.name.as_str()).collect()
}

fn loaded(chain: &Chain) -> String {
    let plugins = chain
        .plugins()
        .iter()
        .map(|plugin| format!("{} {}", plugin.name, plugin.description.version));
    let plugins: Vec<String> = plugins.collect();
    let plugins = match plugins.as_slice() {
        [] => "no plugins".to_owned(),
        some => some.join(", "),
    };
    format!("chain {} is active: {plugins}", chain.digest())
}

/// What each plugin of a chain may read and write.
type Grants = BTreeMap<String, PluginGrants>;

/// How the grants of one plugin changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change<'g> {
    plugin: &'g str,
    allow_added: Vec<&'g str>,
    allow_removed: Vec<&'g str>,
    read_added: Vec<&'g str>,
    read_removed: Vec<&'g str>,
}

fn grants(chain: &Chain) -> Grants {
    let names = chain.plugins().iter().map(|plugin| plugin.name.clone());
    names.zip(chain.grants()).collect()
}

/// The plugins of both chains whose grants differ.
fn changes<'g>(before: &'g Grants, after: &'g Grants) -> Vec<Change<'g>> {
    const NOTHING: &PluginGrants = &PluginGrants {
        allow: Vec::new(),
        read: Vec::new(),
    };
    let gone = before.keys().filter(|plugin| !after.contains_key(*plugin));
    let plugins = after.keys().chain(gone);
    let change = |plugin: &'g String| {
        let of = |grants: &'g Grants| grants.get(plugin).unwrap_or(NOTHING);
        let (old, new) = (of(before), of(after));
        let change = Change {
            plugin,
            allow_added: beyond(&new.allow, &old.allow),
            allow_removed: beyond(&old.allow, &new.allow),
            read_added: beyond(&new.read, &old.read),
            read_removed: beyond(&old.read, &new.read),
        };
        let nothing = Change {
            plugin,
            ..Change::default()
        };
        (change != nothing).then_some(change)
    };
    plugins.filter_map(change).collect()
}

/// Paths for the log, in one line of bounded length: a plugin may ask for 256 paths of a kilobyte each.
fn listed(paths: &[&str]) -> String {
    const SHOWN: usize = 20;
    const SHOWN_BYTES: usize = 200;
    text::joined(paths, SHOWN, ", ", |path| {
        // Escaped, so that no character is invisible or ends the line.
        short(&format!("{path:?}"), SHOWN_BYTES, "...").into_owned()
    })
}

fn beyond<'g>(paths: &'g [String], others: &[String]) -> Vec<&'g str> {
    let more = paths.iter().filter(|path| !others.contains(path));
    more.map(String::as_str).collect()
}

#[cfg(test)]
mod tests;
