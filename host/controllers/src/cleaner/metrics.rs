//! What is measured of Cleaners. No label is the name of an object.

use std::time::Duration;

use kube::runtime::reflector::Store;
use podloom_api::CleanerStatus;
use podloom_api::names::cleaner::{condition, reason};
use podloom_cel::{Evaluation, Verdict};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::action::Fate;
use super::delivery::DeliveryMetrics;
use super::stored::StoredCleaner;
use crate::engine::metrics::{Objects, Phases};
use crate::engine::readable::Readable;
use crate::outbound::OutboundMetrics;

/// The name of the controller in logs and metrics.
pub(super) const CONTROLLER: &str = "cleaner";

/// How one without a status is counted.
const NONE: &str = "None";
/// How one that our types cannot hold is counted.
const UNREADABLE: &str = "Unreadable";
/// From a tenth of a millisecond to about three seconds.
const EVALUATION_BUCKETS: (f64, f64, u16) = (0.0001, 2.0, 16);
/// From ten to about ten million.
const STEP_BUCKETS: (f64, f64, u16) = (10.0, 4.0, 11);
/// From a millisecond to about half a minute.
const DELAY_BUCKETS: (f64, f64, u16) = (0.001, 2.0, 16);

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

/// Metrics of the duty; cheap to clone, registered once.
#[derive(Clone)]
pub(crate) struct CleanerMetrics {
    /// All requests out of the cluster.
    pub(super) outbound: OutboundMetrics,
    /// Deliveries of CloudEvents.
    pub(super) delivery: DeliveryMetrics,
    evaluations: Family<Outcome, Counter>,
    evaluation_seconds: Histogram,
    steps: Histogram,
    delay: Histogram,
    triggered: Counter,
    refused: Family<Reason, Counter>,
    deleted: Family<Outcome, Counter>,
    uninstalled: Family<Outcome, Counter>,
    watched: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

impl CleanerMetrics {
    /// Registers all of them.
    pub(crate) fn register(
        registry: &mut Registry,
        objects: &Objects,
        outbound: OutboundMetrics,
    ) -> Self {
        let none = [NONE, UNREADABLE].into_iter();
        objects.declare(CONTROLLER, none.chain(REASONS).collect());
        let metrics = Self {
            outbound,
            delivery: DeliveryMetrics::default(),
            evaluations: outcomes(&["met", "not_met", "error"]),
            evaluation_seconds: histogram(EVALUATION_BUCKETS),
            steps: histogram(STEP_BUCKETS),
            delay: histogram(DELAY_BUCKETS),
            triggered: Counter::default(),
            refused: Family::default(),
            deleted: outcomes(&["accepted", "gone", "replaced", "skipped", "failed"]),
            uninstalled: outcomes(&["uninstalled", "failed"]),
            watched: Gauge::default(),
        };
        for reason in [reason::BLAST_RADIUS_EXCEEDED, reason::TARGET_PROTECTED] {
            drop(metrics.refused.get_or_create(&Reason { reason }));
        }
        metrics.add_to(registry);
        metrics
    }

    fn add_to(&self, registry: &mut Registry) {
        registry.register(
            "cleaner_evaluations",
            "Evaluations of the conditions of Cleaners, by outcome",
            self.evaluations.clone(),
        );
        registry.register_with_unit(
            "cleaner_evaluation",
            "Duration of an evaluation of all conditions of a Cleaner, waiting for a thread included",
            Unit::Seconds,
            self.evaluation_seconds.clone(),
        );
        registry.register(
            "cleaner_cel_steps",
            "Steps of an evaluation of all conditions of a Cleaner",
            self.steps.clone(),
        );
        registry.register_with_unit(
            "cleaner_schedule_delay",
            "How late a scheduled look at targets began",
            Unit::Seconds,
            self.delay.clone(),
        );
        registry.register(
            "cleaner_triggered",
            "Deletions that have begun",
            self.triggered.clone(),
        );
        registry.register(
            "cleaner_refused",
            "Deletions that something has kept from beginning, by reason",
            self.refused.clone(),
        );
        registry.register(
            "cleaner_objects_deleted",
            "Attempts to delete objects of targets, by outcome",
            self.deleted.clone(),
        );
        registry.register(
            "cleaner_helm_uninstalls",
            "Uninstallations of Helm releases, by outcome",
            self.uninstalled.clone(),
        );
        registry.register(
            "cleaner_event_deliveries",
            "Attempts to deliver CloudEvents, by outcome, and CloudEvents that were given up",
            self.delivery.0.clone(),
        );
        registry.register(
            "cleaner_watched_kinds",
            "Kinds of targets that are watched",
            self.watched.clone(),
        );
    }

    /// Records an evaluation.
    pub(super) fn evaluated(&self, evaluation: &Evaluation, took: Duration) {
        let outcome = match evaluation.verdict() {
            Verdict::Met => "met",
            Verdict::NotMet { .. } => "not_met",
            Verdict::Failed(_) => "error",
        };
        self.evaluations.get_or_create(&Outcome { outcome }).inc();
        self.evaluation_seconds.observe(took.as_secs_f64());
        let steps = u32::try_from(evaluation.steps).unwrap_or(u32::MAX);
        self.steps.observe(f64::from(steps));
    }

    /// Records how late a scheduled look was.
    pub(super) fn delayed(&self, by: Duration) {
        self.delay.observe(by.as_secs_f64());
    }

    /// Counts a deletion that has begun.
    pub(super) fn triggered(&self) {
        self.triggered.inc();
    }

    /// Counts a deletion that did not begin, for the reason in the status.
    pub(super) fn refused(&self, status: &CleanerStatus) {
        let reason = ready_reason(status);
        self.refused.get_or_create(&Reason { reason }).inc();
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
        self.deleted.get_or_create(&Outcome { outcome }).inc();
    }

    /// Counts an attempt to uninstall a Helm release that has ended.
    pub(super) fn uninstalled(&self, outcome: &'static str) {
        self.uninstalled.get_or_create(&Outcome { outcome }).inc();
    }

    /// Sets the number of kinds that are watched.
    pub(super) fn watched(&self, count: usize) {
        self.watched.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

fn outcomes(all: &[&'static str]) -> Family<Outcome, Counter> {
    let family = Family::default();
    for outcome in all {
        drop(family.get_or_create(&Outcome { outcome }));
    }
    family
}

fn histogram((first, factor, count): (f64, f64, u16)) -> Histogram {
    Histogram::new(exponential_buckets(first, factor, count))
}

/// The reason of Ready, as metrics have it.
fn ready_reason(status: &CleanerStatus) -> &'static str {
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|it| it.type_ == condition::READY);
    let is_ready = |reason: &&str| ready.is_some_and(|it| it.reason == *reason);
    REASONS.into_iter().find(is_ready).unwrap_or(NONE)
}

/// Returns the reason of each Cleaner of a cache, for as long as it is asked.
pub(super) fn phases(cleaners: Store<Readable<StoredCleaner>>) -> Phases {
    std::sync::Arc::new(move || {
        let all = cleaners.state();
        let all = all.iter();
        all.map(|it| match &it.0 {
            Ok(cleaner) => cleaner.status.as_ref().map_or(NONE, ready_reason),
            Err(_) => UNREADABLE,
        })
        .collect()
    })
}
