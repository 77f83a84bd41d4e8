//! The part of the operator that works on Cleaners.

use std::sync::Arc;

use podloom_controllers::{CleanerSettings, CleanerSetup};

use crate::cli::CleanerArguments;

/// Returns what the controller of Cleaners runs with.
pub(super) fn setup(arguments: &CleanerArguments) -> CleanerSetup {
    CleanerSetup {
        settings: Arc::new(settings(arguments)),
        workers: arguments.workers,
        evaluation_threads: arguments.evaluation_threads.into(),
    }
}

/// Returns what the flags say about every Cleaner.
pub(super) fn settings(arguments: &CleanerArguments) -> CleanerSettings {
    CleanerSettings {
        excluded_namespaces: arguments.excluded_namespaces.0.clone(),
        cluster_scoped: arguments.cluster_scoped.iter().cloned().collect(),
        allow_loopback_sinks: arguments.allow_loopback_sinks,
    }
}
