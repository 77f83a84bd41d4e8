//! Metrics of leader election, of rights and of chain reloads.

use std::time::{SystemTime, UNIX_EPOCH};

use podloom_metrics::{By, metrics};
use podloom_mutators::{PluginMetrics, Reload};
use prometheus_client::metrics::gauge::Gauge;

metrics! {
    /// Metrics of each enabled duty.
    pub(super) struct DutyMetrics {
        pub(super) leader: By<1, Gauge> = "leader", "1 if this replica is the leader of the duty", By::new(["duty"]);
        pub(super) missing_rights: By<1, Gauge> = "optional_rights_missing", "Optional rights of the duty that are missing; /readyz?verbose says which, and what they cost", By::new(["duty"]);
    }
}

metrics! {
    /// Metrics of chain reloads.
    pub(super) struct ChainMetrics(plugins: PluginMetrics) {
        reloads: By<1> = "chain_reloads", "Attempts to load a chain, by outcome", By::new(["outcome"]);
        last_success: Gauge = "chain_last_reload_success_timestamp" Seconds, "When the active chain was loaded";
        compile_peak: Gauge = "compile_peak" Bytes, "Peak memory of the process by the time the active chain was loaded";
        loaded: Gauge = "chain_loaded", "1 if the active chain is what its directory contains, 0 if that was rejected or is not loaded yet";
    }
}

impl ChainMetrics {
    /// Counts an attempt. `peak` is the process's peak memory so far, in bytes.
    pub(super) fn reloaded(&self, reload: &Reload, peak: Option<i64>) {
        self.reloads.of([reload.as_str()]).inc();
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
