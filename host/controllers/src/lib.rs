//! Podloom's reconcilers, and the pure rendering of pods that they share with the command line.
//!
//! Every controller goes the same way: *observe* reads the world from caches, *plan* decides and is pure, *act* is the only
//! writer. What acting taught is put into the world, and the plan is made again, until there is nothing left to do.

mod act;
mod aside;
mod backoff;
mod browser;
mod browser_config;
mod clock;
mod drive;
pub mod duties;
mod error;
mod events;
#[cfg(test)]
mod fixtures;
mod live;
mod metrics;
mod mutator;
pub mod outbound;
mod pod;
mod readable;
pub mod render;
mod run;
mod status;

pub use clock::Clock;
pub use events::{Events, Notice, Severity};
pub use metrics::{ControllerMetrics, EventMetrics};
pub use mutator::{MutatedPod, Note, PodMutator, PodRequest, Refusal};
pub use run::{ControllerError, Readiness, Setup, Timeouts, run};
