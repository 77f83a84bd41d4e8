//! What every controller stands on, whatever its kind is; it names none.
//!
//! A kind implements [`kind::Kind`]: *observe* reads the world, *plan* decides and is pure, *act* is the only writer, *learn* puts the
//! answer into the world, and the plan is made again until it has no action left. What no kind should repeat is here: backoff,
//! deadlines, panics, caches that are behind, watches that died silently, Events, metrics, and the requests themselves.
//!
//! From the bottom up: requests ([`mod@write`], [`read`], [`answer`]), one pass over one object (`pass`), its controller (`drive`), the
//! watches that wake it ([`wiring`]), and the namespaces that are watched ([`scope`]).

pub mod answer;
pub mod backoff;
pub mod blocking;
pub mod clock;
pub mod conditions;
mod drive;
pub mod error;
pub mod events;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod kind;
pub mod metrics;
pub mod namespaces;
pub(crate) mod pass;
mod permits;
pub mod plan;
mod pulse;
mod queue;
pub mod read;
pub mod readable;
pub mod readiness;
mod recent;
pub mod scope;
pub mod watch;
pub mod wiring;
pub mod write;
