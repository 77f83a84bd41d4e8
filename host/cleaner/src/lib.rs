//! Cleaners: each deletes a group of objects of its namespace once they are old enough and conditions hold.
//!
//! - `checked` reads a spec into types that cannot be wrong.
//! - `discovery` finds the kinds of targets, and `objects` reads and deletes objects of any kind.
//! - `helm` uninstalls a Helm release, and `delivery` sends the CloudEvent.
//! - `lifetime` makes Cleaners for objects whose annotations or labels say how long they live.
//! - `validate` says what is wrong with a Cleaner before it is stored, and `offline` what one in a file would do.

mod act;
mod checked;
mod delivery;
mod discovery;
#[cfg(test)]
mod fixtures;
mod frozen;
mod helm;
mod index;
mod kind;
mod lifetime;
mod look;
mod memory;
mod metrics;
mod objects;
pub mod offline;
mod plan;
mod read;
mod settings;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
pub mod validate;
mod watches;
mod world;

pub use kind::begin;
pub use metrics::CleanerMetrics;
pub use settings::{CleanerSettings, CleanerSetup, GroupResource, LifetimeSettings};
pub use validate::CleanerValidator;
