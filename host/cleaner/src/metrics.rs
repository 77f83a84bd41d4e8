//! What is measured of Cleaners. No label is the name of an object.

use std::time::Duration;

use podloom_api::CleanerStatus;
use podloom_api::names::cleaner::{condition, reason};
use podloom_cel::{Evaluation, Verdict};
use podloom_engine::metrics::{NONE, Objects, UNREADABLE};
use podloom_engine::outbound::OutboundMetrics;
use podloom_metrics::{By, Histograms, histogram, metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::world::{Fate, StoredCleaner};

/// The name of the controller in logs and metrics.
pub(super) const CONTROLLER: &str = "cleaner";

/// From a tenth of a millisecond to about three seconds.
const EVALUATION_BUCKETS: Histograms = Histograms(0.0001, 2.0, 16);
/// From ten to about ten million.
const STEP_BUCKETS: Histograms = Histograms(10.0, 4.0, 11);
/// From a millisecond to about half a minute.
const DELAY_BUCKETS: Histograms = Histograms(0.001, 2.0, 16);

/// The reasons of Ready.
const REASONS: [&str; 12] = [
    reason::NOT_EXPIRED,
    reason::INVALID_SPEC,
    reason::CONDITION_COMPILE_ERROR,
    reason::TARGET_RESOLVE_ERROR,
    reason::CONDITION_EVALUATION_ERROR,
    reason::CONDITION_RESULT_NOT_BOOLEAN,
    reason::CONDITION_BUDGET_EXCEEDED,
    reason::WAITING_FOR_CONDITIONS,
    reason::BLAST_RADIUS_EXCEEDED,
    reason::TARGET_PROTECTED,
    reason::DRY_RUN,
    reason::TERMINATING,
];

metrics! {
    /// Metrics of the duty; cheap to clone, registered once.
    pub struct CleanerMetrics(pub(super) outbound: OutboundMetrics) {
        evaluations: By<1> = "cleaner_evaluations", "Evaluations of the conditions of Cleaners, by outcome", outcomes(["met", "not_met", "error"]);
        evaluation_seconds: Histogram = "cleaner_evaluation" Seconds, "Duration of an evaluation of all conditions of a Cleaner, waiting for a thread included", histogram(EVALUATION_BUCKETS);
        steps: Histogram = "cleaner_cel_steps", "Steps of an evaluation of all conditions of a Cleaner", histogram(STEP_BUCKETS);
        pub(super) delay: Histogram = "cleaner_schedule_delay" Seconds, "How late a scheduled look at targets began", histogram(DELAY_BUCKETS);
        pub(super) triggered: Counter = "cleaner_triggered", "Deletions that have begun";
        pub(super) refused: By<1> = "cleaner_refused", "Deletions that something has kept from beginning, by reason", By::new(["reason"]).from_zero([[reason::BLAST_RADIUS_EXCEEDED], [reason::TARGET_PROTECTED]]);
        deleted: By<1> = "cleaner_objects_deleted", "Attempts to delete objects of targets, by outcome", outcomes(["accepted", "gone", "replaced", "skipped", "failed"]);
        pub(super) uninstalled: By<1> = "cleaner_helm_uninstalls", "Uninstallations of Helm releases, by outcome", outcomes(["uninstalled", "failed"]);
        pub(super) delivered: By<1> = "cleaner_event_deliveries", "Attempts to deliver CloudEvents, by outcome, and CloudEvents that were given up", outcomes(["delivered", "failed", "given_up"]);
        pub(super) watched: Gauge = "cleaner_watched_kinds", "Kinds of targets that are watched";
    }
}

impl CleanerMetrics {
    /// Registers all of them, and declares the reasons.
    pub fn declared(registry: &mut Registry, objects: &Objects, outbound: OutboundMetrics) -> Self {
        let none = [NONE, UNREADABLE].into_iter();
        objects.declare(CONTROLLER, none.chain(REASONS).collect());
        Self::register(registry, outbound)
    }

    /// Records an evaluation.
    pub(super) fn evaluated(&self, evaluation: &Evaluation, took: Duration) {
        let outcome = match evaluation.verdict() {
            Verdict::Met => "met",
            Verdict::NotMet { .. } => "not_met",
            Verdict::Failed(_) => "error",
        };
        self.evaluations.of([outcome]).inc();
        self.evaluation_seconds.observe(took.as_secs_f64());
        let steps = u32::try_from(evaluation.steps).unwrap_or(u32::MAX);
        self.steps.observe(f64::from(steps));
    }

    /// Counts an attempt to delete an object.
    pub(super) fn deleted(&self, fate: &Fate) {
        let outcome = match fate {
            Fate::Accepted => "accepted",
            Fate::Gone => "gone",
            Fate::Replaced => "replaced",
            Fate::Skipped(_) => "skipped",
            Fate::Failed(_) => "failed",
        };
        self.deleted.of([outcome]).inc();
    }
}

fn outcomes<const N: usize>(all: [&'static str; N]) -> By<1> {
    By::new(["outcome"]).from_zero(all.map(|outcome| [outcome]))
}

/// The reason of Ready, as metrics have it.
pub(super) fn ready_reason(status: &CleanerStatus) -> &'static str {
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|it| it.type_ == condition::READY);
    let is_ready = |reason: &&str| ready.is_some_and(|it| it.reason == *reason);
    REASONS.into_iter().find(is_ready).unwrap_or(NONE)
}

/// The reason of a Cleaner.
pub(super) fn phase(cleaner: &StoredCleaner) -> &'static str {
    cleaner.status.as_ref().map_or(NONE, ready_reason)
}
