//! The controllers of all duties: what an installation can switch on ([`duties`]), and how it runs.
//!
//! Controllers know the plugin chain only as a [`PodMutator`](podloom_mutation::PodMutator).

mod admission;
pub mod duties;
mod follow;
mod metrics;
mod run;

pub use admission::{AdmissionCaches, candidates, config_refs};
pub use follow::{ChainExceptions, Rollouts, chain_exceptions, rollouts};
pub use metrics::ControllerMetrics;
pub use run::{ControllerError, DutySetup, Setup, run};
