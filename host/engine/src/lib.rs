//! The engine of Podloom's controllers: what all kinds share. It names no kind.
//!
//! A kind implements [`kind::Kind`]: *observe* reads the world, *plan* decides and is pure, *act* is the only writer, *learn* puts the
//! outcome into the world, and the plan is made again until it has no action left. The engine handles what is the same for all kinds:
//! backoff, timeouts, panics, caches that lag, watches that died silently, Events, metrics, and the requests themselves.
//!
//! From the bottom up: requests ([`mod@write`], [`read`], [`answer`]), one pass over one object and its controller ([`pass`]), the
//! watches that wake objects ([`wiring`]), and the watched namespaces ([`scope`]). Beside them: requests out of the cluster
//! ([`outbound`]), what is wrong with an object and where ([`finding`]), and words of tenants in messages ([`shown`]).

pub mod answer;
pub mod backoff;
pub mod blocking;
pub mod broken;
pub mod cache;
pub mod clock;
pub mod conditions;
pub mod error;
pub mod events;
pub mod finding;
pub mod kind;
pub mod metrics;
pub mod namespaces;
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
pub mod wakes;
pub mod watch;
pub mod wiring;
pub mod write;

/// The target of spans and events that are steps of traces.
///
/// A step is a span at the lowest level, whose fields are names, times and words of closed sets: never a value of an object, and never
/// the text of an error. The outermost one has the field `trace`, with the UID of what it is about, and a step that failed has the
/// field `error`. A step whose length is known only when it is over is an event, with `step` and `seconds`.
pub const TRACES: &str = "podloom::traces";

#[cfg(test)]
mod tests;
