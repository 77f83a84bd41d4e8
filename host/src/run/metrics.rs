//! Metrics of leader election, of rights and of chain reloads.

use std::time::{SystemTime, UNIX_EPOCH};

use podloom_mutators::{PluginMetrics, Reload};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// For each duty, whether this replica is the leader.
pub(super) struct LeaderMetrics(Family<ByDuty, Gauge>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByDuty {
    duty: &'static str,
}

impl LeaderMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let leader = Family::default();
        registry.register(
            "leader",
            "1 if this replica is the leader of the duty",
            leader.clone(),
        );
        Self(leader)
    }

    /// The gauge of an enabled duty.
    pub(super) fn of(&self, duty: &'static str) -> Gauge {
        self.0.get_or_create_owned(&ByDuty { duty })
    }
}

/// For each duty, how many optional rights are missing.
pub(super) struct RightMetrics(Family<ByDuty, Gauge>);

impl RightMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let missing = Family::default();
        registry.register(
            "optional_rights_missing",
            "Optional rights of the duty that are missing; /readyz?verbose says which, and what they cost",
            missing.clone(),
        );
        Self(missing)
    }

    /// The gauge of an enabled duty.
    pub(super) fn of(&self, duty: &'static str) -> Gauge {
        self.0.get_or_create_owned(&ByDuty { duty })
    }
}

/// Metrics of chain reloads.
pub(super) struct ChainMetrics {
    reloads: Family<ByOutcome, Counter>,
    last_success: Gauge,
    compile_peak: Gauge,
    loaded: Gauge,
    plugins: PluginMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

impl ChainMetrics {
    pub(super) fn register(registry: &mut Registry, plugins: PluginMetrics) -> Self {
        let metrics = Self {
            reloads: Family::default(),
            last_success: Gauge::default(),
            compile_peak: Gauge::default(),
            loaded: Gauge::default(),
            plugins,
        };
        registry.register(
            "chain_reloads",
            "Attempts to load a chain, by outcome",
            metrics.reloads.clone(),
        );
        registry.register_with_unit(
            "chain_last_reload_success_timestamp",
            "When the active chain was loaded",
            Unit::Seconds,
            metrics.last_success.clone(),
        );
        registry.register_with_unit(
            "compile_peak",
            "Peak memory of the process by the time the active chain was loaded",
            Unit::Bytes,
            metrics.compile_peak.clone(),
        );
        registry.register(
            "chain_loaded",
            "1 if the active chain is what its directory contains, 0 if that was rejected or is not loaded yet",
            metrics.loaded.clone(),
        );
        metrics
    }

    /// Counts an attempt. `peak` is the process's peak memory so far, in bytes.
    pub(super) fn reloaded(&self, reload: &Reload, peak: Option<i64>) {
        let outcome = reload.as_str();
        self.reloads.get_or_create(&ByOutcome { outcome }).inc();
        self.plugins.reloaded(reload);
        let is_loaded = !matches!(reload, Reload::Refused { .. });
        self.loaded.set(i64::from(is_loaded));
        if let Reload::Swapped { .. } = reload {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            self.last_success
                .set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
            self.compile_peak.set(peak.unwrap_or_default());
        }
    }
}
