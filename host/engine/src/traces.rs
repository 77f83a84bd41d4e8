//! What the steps of traces have in common.
//!
//! A step is a span of this target, at the lowest level, whose fields are names, times and words of closed sets: never a value of an
//! object, and never the text of an error. The outermost one has the field `trace`, with the UID of what it is about, and a step that
//! failed has the field `error`. A step whose length is known only when it is over is an event, with `step` and `seconds`.

/// The target of spans and events that are steps of traces.
pub const TRACES: &str = "podloom::traces";
