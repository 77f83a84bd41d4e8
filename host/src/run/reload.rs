//! Reports each attempt to load a chain: in the log, the metrics, the console, and an Event on the operator's own pod.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ObjectReference;
use podloom_api::names::event;
use podloom_controllers::{Events, Notice};
use podloom_mutators::{Chain, LoadError, Reload};
use podloom_turns::lock;

use super::grants::{self, Grants};
use super::history::History;
use super::metrics::ChainMetrics;
use super::process as own;

/// Where attempts are reported.
pub(super) struct ReloadReporter {
    pub(super) metrics: ChainMetrics,
    /// The queue of Events and the operator's own pod, if its name is known.
    pub(super) events: Option<(Events, ObjectReference)>,
    /// What the console shows; none if it is off.
    pub(super) history: Option<Arc<History>>,
    /// The grants of the active chain; none before the first one.
    pub(super) granted: Mutex<Option<Grants>>,
}

impl ReloadReporter {
    /// Reports one attempt.
    pub(super) fn report(&self, reload: &Reload) {
        self.metrics.reloaded(reload, own::peak());
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
                    compile_peak_mib = mebibytes(own::peak()),
                    memory_mib = mebibytes(own::now()),
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
                    outcome = error.reason(), %error,
                    "rejected the new plugin chain, the last good one stays active if there is one"
                );
                self.publish(Notice::warning(event::CHAIN_REFUSED, refused(error)));
            }
            Reload::Refused { error, .. } => {
                tracing::debug!(outcome = error.reason(), %error, "rejected the same plugin chain again");
            }
        }
    }

    fn log_changed_grants(&self, chain: &Chain) {
        let after = grants::of(chain);
        let mut granted = lock(&self.granted);
        for change in granted
            .iter()
            .flat_map(|before| grants::changes(before, &after))
        {
            tracing::info!(
                plugin = change.plugin,
                allow_added = grants::listed(&change.allow_added),
                allow_removed = grants::listed(&change.allow_removed),
                read_added = grants::listed(&change.read_added),
                read_removed = grants::listed(&change.read_removed),
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

fn names(chain: &Chain, which: impl Fn(&podloom_mutators::Plugin) -> bool) -> Vec<&str> {
    let plugins = chain.plugins().iter().filter(|plugin| which(plugin));
    plugins.map(|plugin| plugin.name.as_str()).collect()
}

fn loaded(chain: &Chain) -> String {
    let plugins = chain
        .plugins()
        .iter()
        .map(|plugin| format!("{} {}", plugin.name, plugin.description.version));
    let plugins: Vec<String> = plugins.collect();
    let plugins = if plugins.is_empty() {
        "no plugins".to_owned()
    } else {
        plugins.join(", ")
    };
    format!("chain {} is active: {plugins}", chain.digest())
}

fn refused(error: &LoadError) -> String {
    format!("rejected the new content of the plugin directory: {error}")
}
