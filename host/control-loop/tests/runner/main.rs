//! Tests of whole loops, with a paused clock.

mod examples;
mod feed;
mod hints;
mod isolation;
mod known;
mod lock;
mod log;
#[cfg(feature = "prometheus")]
mod metrics;
mod once;
mod retry;
mod shared;
mod stop;
mod stress;
mod support;
