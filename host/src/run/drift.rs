//! Looks for drift at an interval, and shows it as metrics.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use podloom_metrics::{By, Scraped, Shown, gauges, metrics};
use podloom_mutators::{Chain, Slot};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::parts::Parts;
use super::state::OperatorState;
use crate::drift::{Counts, Reader, Scope, Unclear, reported, scan};
use crate::error::CommandError;
use crate::mutator::Chains;
use crate::reports::{Key, Notes, Policy};

/// How long one look at the cluster may take.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Looks for drift, one look after the other.
#[derive(Clone)]
pub(super) struct DriftTask {
    client: Client,
    /// One for all namespaces, or one for each watched one.
    scopes: Arc<Vec<Scope>>,
    slot: Arc<Slot>,
    chains: Chains,
    interval: Duration,
    metrics: DriftMetrics,
    /// For reports, if there are any.
    notes: Option<Arc<Notes>>,
}

/// What was found.
#[derive(Default)]
struct Found {
    counts: Vec<(String, Counts)>,
    /// What could not be read.
    skipped: Vec<String>,
    /// For reports: what is said of each owner.
    reported: Vec<(String, Key, String)>,
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
            reader: match state.notes {
                Some(_) => Reader::Reporter,
                None => Reader::Operator,
            },
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
            chains: state.chains(),
            interval: webhook.drift_interval,
            metrics: DriftMetrics::collected(registry),
            notes: state.notes.clone(),
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
                Ok(None) => tracing::debug!("no chain, so nothing can have missed it"),
                Err(error) => {
                    // What the last one found is still shown.
                    self.metrics.looked("failed");
                    tracing::warn!(error, "could not look for drift");
                }
                Ok(Some(found)) => {
                    let skipped = found.skipped;
                    self.metrics.show(found.counts, !skipped.is_empty());
                    if let Some(notes) = &self.notes {
                        notes.all_of(Policy::Drift, found.reported);
                    }
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

    /// Looks once; none if there is no chain yet, so nothing can have missed it.
    async fn look(&self) -> Result<Option<Found>, String> {
        let Some(chain) = self.chains.in_force().chain else {
            return Ok(None);
        };
        let (client, scopes) = (self.client.clone(), Arc::clone(&self.scopes));
        let looking = async move { timeout(TIMEOUT, look(&client, &scopes, &chain)).await };
        match apart(looking).await? {
            Ok(Ok(found)) => Ok(Some(found)),
            Ok(Err(CommandError::Other(error))) => Err(format!("{error:#}")),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it took longer than {TIMEOUT:?}")),
        }
    }
}

/// Looks at a cluster on a blocking thread: pods are parsed and judged there, and reviews never wait for that. An error says why it did
/// not end.
pub(super) async fn apart<T: Send + 'static>(
    look: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let cancelled = CancellationToken::new();
    // The thread goes on if this is dropped, so it must hear of that.
    let _guard = cancelled.clone().drop_guard();
    let handle = Handle::current();
    let looking = move || handle.block_on(cancelled.run_until_cancelled(look));
    let looked = spawn_blocking(looking).await;
    let looked = looked.map_err(|error| error.to_string())?;
    looked.ok_or_else(|| "it was stopped".to_owned())
}

async fn look(client: &Client, scopes: &[Scope], chain: &Chain) -> Result<Found, CommandError> {
    let mut found = Found::default();
    for scope in scopes {
        let findings = scan(client, scope, Some(chain)).await?;
        if scope.reader == Reader::Reporter {
            found.reported.extend(reported(&findings));
        }
        found.counts.extend(findings.namespaces);
        let texts = findings
            .skipped
            .iter()
            .map(|it| format!("{}: {}", it.what, it.why));
        let unclear = [
            (Unclear::Size, "pods: some are too large to be read"),
            (
                Unclear::Ephemeral,
                "pods: of some it is not known whether the chain would deny or change their ephemeral containers",
            ),
        ];
        let unclear = unclear.iter();
        let unclear = unclear.filter(|(it, _)| findings.unclear.contains_key(it));
        let unclear = unclear.map(|(_, text)| (*text).to_owned());
        for text in texts.chain(unclear) {
            if !found.skipped.contains(&text) {
                found.skipped.push(text);
            }
        }
    }
    if !found.skipped.is_empty() && scopes.iter().any(|it| it.reader == Reader::Reporter) {
        let key = Key::of(Policy::Drift, "incomplete", ("", ""));
        let text = found.skipped.join("; ");
        found.reported.push((String::new(), key, text));
    }
    Ok(found)
}

/// How many namespaces are shown by name.
const NAMESPACES: usize = 200;
/// Stands for all others.
const OTHER: &str = "other";

metrics! {
    /// Metrics of drift.
    struct DriftMetrics(latest: Scraped<Latest>) {
        looks: By<1> = "drift_looks", "Looks for pods that missed the chain or were changed after it; partial if something could not be read", By::new(["outcome"]).from_zero([["complete"], ["partial"], ["failed"]]);
    }
}

/// What the last look at the cluster found, by namespace; nothing while another replica looks.
type Latest = BTreeMap<String, Counts>;

impl DriftMetrics {
    fn collected(registry: &mut Registry) -> Self {
        let latest = Scraped::register(registry, write);
        Self::register(registry, latest)
    }

    /// What is shown until the result is dropped.
    fn shown(&self) -> Shown<Latest> {
        self.latest.shown()
    }

    /// Shows what a look has found.
    fn show(&self, counts: Vec<(String, Counts)>, is_partial: bool) {
        self.latest.set(bounded(counts));
        self.looked(if is_partial { "partial" } else { "complete" });
    }

    fn looked(&self, outcome: &'static str) {
        self.looks.of([outcome]).inc();
    }
}

/// The namespaces with most pods that missed the chain or were changed, and the sum of all others.
fn bounded(counts: Vec<(String, Counts)>) -> Latest {
    let mut counts = counts;
    counts.retain(|(_, it)| *it != Counts::default());
    counts.sort_by(|(name, a), (other, b)| {
        let rank = |it: &Counts| Reverse(it.rank());
        (rank(a), name).cmp(&(rank(b), other))
    });
    let mut shown = Latest::new();
    for (index, (name, counts)) in counts.into_iter().enumerate() {
        let name = match index < NAMESPACES {
            true => name,
            false => OTHER.to_owned(),
        };
        let sum = shown.entry(name).or_default();
        sum.missed += counts.missed;
        sum.changed += counts.changed;
        sum.older += counts.older;
        sum.ephemeral += counts.ephemeral;
    }
    shown
}

fn write(latest: Option<&Latest>, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let series = latest
        .into_iter()
        .flatten()
        .flat_map(|(namespace, counts)| {
            let Counts {
                missed,
                changed,
                older,
                ephemeral,
            } = *counts;
            let results = [
                ("missed", missed),
                ("changed", changed),
                ("older", older),
                ("ephemeral", ephemeral),
            ];
            results.map(|(result, pods)| {
                let labels = [("namespace", namespace.as_str()), ("result", result)];
                (labels, pods)
            })
        });
    let help = "Pods that missed the chain, that were changed after it, that passed an older one, or that have ephemeral containers which the chain would deny or change";
    gauges(&mut encoder, "drift_pods", help, series)
}

#[cfg(test)]
mod tests;
