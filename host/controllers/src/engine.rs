//! What all controllers share. It names no kind.
//!
//! A kind implements [`kind::Kind`]: *observe* reads the world, *plan* decides and is pure, *act* is the only writer, *learn* puts the
//! outcome into the world, and the plan is made again until it has no action left. The engine handles what is the same for all kinds:
//! backoff, timeouts, panics, caches that lag, watches that died silently, Events, metrics, and the requests themselves.
//!
//! From the bottom up: requests ([`mod@write`], [`read`], [`answer`]), one pass over one object (`pass`), its controller (`drive`), the
//! watches that wake objects ([`wiring`]), and the watched namespaces ([`scope`]).

pub mod answer;
pub mod backoff;
pub mod blocking;
pub(crate) mod broken;
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
pub mod optional;
pub(crate) mod pass;
mod permits;
pub mod plain;
pub mod plan;
mod queue;
pub mod read;
pub mod readable;
pub mod readiness;
mod recent;
pub mod scope;
pub mod sent;
mod unreadable;
pub(crate) mod wakes;
pub mod watch;
mod watch_age;
pub mod wiring;
pub mod write;
