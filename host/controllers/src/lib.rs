//! Podloom's reconcilers, and the pure rendering of pods that they share with the command line.
//!
//! [`engine`] is what all controllers share; it names no kind. Each duty has a folder with its kinds. Controllers know the plugin chain
//! only as a [`PodMutator`](podloom_mutation::PodMutator).

mod admission;
mod browser;
pub mod cleaner;
pub mod duties;
pub mod engine;
mod finding;
pub mod infrastructure;
mod metrics;
pub mod outbound;
pub mod portal;
mod run;
mod shown;
mod traces;
mod workload;

pub use admission::{AdmissionCaches, NamespaceConfigs, TunnelClasses};
pub use browser::{BrowserSetup, Timeouts, render, validate};
pub use cleaner::{CleanerSettings, CleanerSetup, CleanerValidator, GroupResource};
pub use engine::blocking::BlockingThreads;
pub use engine::clock::Clock;
pub use engine::events::{Events, Notice};
pub use engine::namespaces::{
    UnreadNamespaces, about as about_namespace, are_refused as namespaces_are_refused,
};
pub use engine::plain::plain;
pub use engine::readiness::Readiness;
pub use engine::sent::{SendMetrics, SendOutcome};
pub use finding::{FieldPath, Finding, Findings, Step, Subject};
pub use infrastructure::InfrastructureSetup;
pub use metrics::ControllerMetrics;
pub use portal::{
    ChainPolicy, ClientVersion, Observation, PortalSetup, RelaySettings, TunnelSettings,
    VersionError,
};
pub use run::{ControllerError, DutySetup, Setup, run};
pub use traces::TRACES;
pub use workload::selected_labels;
