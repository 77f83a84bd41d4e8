//! The engine of Podloom's controllers: what all kinds share. It names no kind.
//!
//! A kind implements [`kind::Kind`]: *observe* reads the world, *plan* decides and is pure, *act* is the only writer, *learn* puts the
//! outcome into the world, and the plan is made again until it has no action left. The engine handles what is the same for all kinds:
//! backoff, timeouts, panics, caches that lag, watches that died silently, Events, metrics, and the requests themselves.
//!
//! From the bottom up: requests ([`mod@write`], [`read`], [`answer`]), one pass over one object (`pass`), its controller (`drive`), the
//! watches that wake objects ([`wiring`]), and the watched namespaces ([`scope`]). Beside them: requests out of the cluster
//! ([`outbound`]), what is wrong with an object and where ([`finding`]), and words of tenants in messages ([`shown`]).

pub mod answer;
pub mod backoff;
pub mod blocking;
pub mod broken;
pub mod clock;
pub mod conditions;
mod drive;
pub mod error;
pub mod events;
pub mod finding;
pub mod kind;
pub mod metrics;
pub mod namespaces;
pub mod optional;
pub mod outbound;
pub mod pass;
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
pub mod shown;
pub mod testing;
mod traces;
mod unreadable;
pub mod wakes;
pub mod watch;
mod watch_age;
pub mod wiring;
pub mod workload;
pub mod write;

pub use traces::TRACES;

#[cfg(test)]
mod tests;
