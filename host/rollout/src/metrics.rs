//! What is measured of ChainRollouts: those that are in the cache.

use std::fmt;

use podloom_api::{ChainRolloutObject, ChainRolloutStatus, RolloutPhase, RolloutPods};
use podloom_engine::cache::Cache;
use podloom_engine::metrics::{NONE, Objects, UNREADABLE};
use podloom_engine::readable::Readable;
use podloom_metrics::{Scraped, Shown, gauges};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::route::first;

/// The name of the controller in logs and metrics.
pub(crate) const CONTROLLER: &str = "chainrollout";

type Rollouts = Cache<Readable<ChainRolloutObject>>;

/// Metrics of the duty.
#[derive(Clone)]
pub struct RolloutMetrics(Scraped<Rollouts>);

impl RolloutMetrics {
    /// Registers all of them, and declares the phases.
    pub fn declared(registry: &mut Registry, objects: &Objects) -> Self {
        let phases = [NONE, UNREADABLE].into_iter();
        let phases = phases.chain(RolloutPhase::ALL.map(RolloutPhase::as_str));
        objects.declare(CONTROLLER, phases.collect());
        Self(Scraped::register(registry, write))
    }

    /// Shows what is in the cache until the returned value is dropped, since that of a stopped controller is stale.
    #[must_use]
    pub(crate) fn show(&self, rollouts: Rollouts) -> Shown<Rollouts> {
        self.0.set(rollouts);
        self.0.shown()
    }
}

/// The phase of a ChainRollout.
pub(crate) fn phase(rollout: &ChainRolloutObject) -> &'static str {
    let phase = rollout.status.as_ref().and_then(|status| status.phase);
    phase.map_or(NONE, RolloutPhase::as_str)
}

/// The status of the one that counts.
fn status(rollouts: Option<&Rollouts>) -> ChainRolloutStatus {
    let all = rollouts.map(Cache::all).unwrap_or_default();
    let first = first(all.iter().map(|it| &**it));
    first.and_then(|it| it.status.clone()).unwrap_or_default()
}

fn write(rollouts: Option<&Rollouts>, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let status = status(rollouts);
    let help = "The largest share of owners that any namespace gives to the candidate";
    let percent = [([], i64::from(status.percent))];
    gauges::<&str, _, 0>(&mut encoder, "rollout_percent", help, percent)?;
    let help = "Pods of both chains since the rollout began";
    let of = |chain, pods: RolloutPods| {
        let results = [
            ("reviewed", pods.reviewed),
            ("denied", pods.denied),
            ("failed", pods.failed),
            ("ready", pods.ready),
            ("unready", pods.unready),
            ("restarted", pods.restarted),
        ];
        results.map(|(result, pods)| ([("chain", chain), ("result", result)], pods))
    };
    let serving = of("serving", status.serving_pods).into_iter();
    let pods = serving.chain(of("candidate", status.candidate_pods));
    gauges(&mut encoder, "rollout_pods", help, pods)?;
    let help = "Replicas that have the candidate of the rollout, and that do not";
    let replicas = status.replicas.values();
    let has = |it: &&podloom_api::RolloutReplica| it.candidate == status.candidate;
    let (with, without): (Vec<_>, Vec<_>) = replicas.partition(has);
    let states = [("with", with.len()), ("without", without.len())];
    let states =
        states.map(|(state, count)| ([("state", state)], i64::try_from(count).unwrap_or(i64::MAX)));
    gauges(&mut encoder, "rollout_replicas", help, states)
}
