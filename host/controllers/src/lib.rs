//! The controllers of all duties: what an installation can switch on ([`duties`]), and how it runs.
//!
//! Controllers know the plugin chain only as a [`PodMutator`](podloom_mutation::PodMutator).

mod admission;
pub mod duties;
mod metrics;
mod run;

pub use podloom_browser::{BrowserSetup, Timeouts, render, validate};
pub use podloom_cleaner::{
    self as cleaner, CleanerSettings, CleanerSetup, CleanerValidator, GroupResource,
};
pub use podloom_engine::blocking::BlockingThreads;
pub use podloom_engine::clock::Clock;
pub use podloom_engine::events::{Events, Notice};
pub use podloom_engine::finding::{FieldPath, Finding, Findings, Step, Subject};
pub use podloom_engine::namespaces::{
    UnreadNamespaces, about as about_namespace, are_refused as namespaces_are_refused,
};
pub use podloom_engine::plain::plain;
pub use podloom_engine::readiness::Readiness;
pub use podloom_engine::sent::{SendMetrics, SendOutcome};
pub use podloom_engine::{self as engine, TRACES, outbound};
pub use podloom_infrastructure::{self as infrastructure, InfrastructureSetup};
pub use podloom_portal::{
    self as portal, ChainPolicy, ClientVersion, Observation, PortalSetup, RelaySettings,
    TunnelSettings, VersionError,
};

pub use admission::{AdmissionCaches, NamespaceConfigs, TunnelClasses};
pub use metrics::ControllerMetrics;
pub use run::{ControllerError, DutySetup, Setup, run};
