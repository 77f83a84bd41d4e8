//! Looks for drift at an interval, and shows it as metrics.

mod metrics;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use podloom_mutators::Slot;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use self::metrics::DriftMetrics;
use super::parts::Parts;
use super::state::OperatorState;
use crate::drift::{Counts, Expected, Reader, Scope, Unclear, scan};
use crate::error::CommandError;

/// How long one look at the cluster may take.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Looks for drift, one look after the other.
#[derive(Clone)]
pub(super) struct DriftTask {
    client: Client,
    /// One for all namespaces, or one for each watched one.
    scopes: Arc<Vec<Scope>>,
    slot: Arc<Slot>,
    interval: Duration,
    metrics: DriftMetrics,
}

/// How a look at the cluster ended.
enum Look {
    /// Everything was read, but for what these texts name.
    Done(Vec<(String, Counts)>, Vec<String>),
    /// There is no chain yet, so nothing can have missed it.
    NoChain,
    Failed(String),
}

impl DriftTask {
    /// None if it is switched off.
    pub(super) fn of(
        parts: &Parts<'_>,
        state: &OperatorState,
        registry: &mut Registry,
    ) -> Option<Self> {
        let webhook = &parts.arguments.webhook;
        if webhook.drift_interval.is_zero() {
            return None;
        }
        let scope = |namespace: Option<String>| Scope {
            namespace,
            selector: None,
            webhook: webhook.name.clone(),
            reader: Reader::Operator,
        };
        let namespaces = parts.arguments.namespaces();
        let scopes = match namespaces.is_empty() {
            true => vec![scope(None)],
            false => namespaces.into_iter().map(|it| scope(Some(it))).collect(),
        };
        Some(Self {
            client: parts.client.clone(),
            scopes: Arc::new(scopes),
            slot: Arc::clone(&state.slot),
            interval: webhook.drift_interval,
            metrics: DriftMetrics::collected(registry),
        })
    }

    /// Looks again and again, until it is dropped. What was found is shown as long as this runs.
    pub(super) async fn run(self) {
        let _shown = self.metrics.shown();
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = Vec::new();
        self.slot.attempted().await;
        loop {
            ticks.tick().await;
            match self.look().await {
                Look::NoChain => tracing::debug!("no chain, so nothing can have missed it"),
                Look::Failed(error) => {
                    self.metrics.failed();
                    tracing::warn!(error, "could not look for drift");
                }
                Look::Done(counts, skipped) => {
                    self.metrics.show(counts, !skipped.is_empty());
                    if skipped != known {
                        for skipped in &skipped {
                            tracing::warn!(skipped, "cannot see everything that drifted");
                        }
                        known = skipped;
                    }
                }
            }
        }
    }

    /// Looks once. Pods are parsed and judged on a blocking thread, with a rest after every few, so that reviews never wait for that.
    async fn look(&self) -> Look {
        let Some(chain) = self.slot.serving().chain.clone() else {
            return Look::NoChain;
        };
        let expected = Expected::of(&chain);
        let (client, scopes) = (self.client.clone(), Arc::clone(&self.scopes));
        let cancelled = CancellationToken::new();
        // The thread goes on if this is dropped, so it must hear of that.
        let _guard = cancelled.clone().drop_guard();
        let handle = Handle::current();
        let looking = move || {
            handle.block_on(async {
                tokio::select! {
                    looked = timeout(TIMEOUT, look(&client, &scopes, &expected)) => looked.ok(),
                    () = cancelled.cancelled() => None,
                }
            })
        };
        match spawn_blocking(looking).await {
            Ok(Some(Ok((counts, skipped)))) => Look::Done(counts, skipped),
            Ok(Some(Err(CommandError::Other(error)))) => Look::Failed(format!("{error:#}")),
            Ok(Some(Err(error))) => Look::Failed(error.to_string()),
            Ok(None) => Look::Failed(format!("it took longer than {TIMEOUT:?}")),
            Err(error) => Look::Failed(error.to_string()),
        }
    }
}

/// What was found, by namespace, and what could not be read.
type Found = (Vec<(String, Counts)>, Vec<String>);

async fn look(
    client: &Client,
    scopes: &[Scope],
    expected: &Expected,
) -> Result<Found, CommandError> {
    let (mut counts, mut skipped) = (Vec::new(), Vec::new());
    for scope in scopes {
        let (findings, unread) = scan(client, scope, Some(expected.clone())).await?;
        counts.extend(findings.namespaces);
        let texts = unread.iter().map(|it| format!("{}: {}", it.what, it.why));
        let has_large = findings.unclear.contains_key(&Unclear::Size);
        let large = has_large.then(|| "pods: some are too large to be read".to_owned());
        for text in texts.chain(large) {
            if !skipped.contains(&text) {
                skipped.push(text);
            }
        }
    }
    Ok((counts, skipped))
}
