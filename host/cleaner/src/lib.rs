//! Cleaners: each deletes a group of objects of its namespace once they are old enough and conditions hold.
//!
//! - `checked` reads a spec into types that cannot be wrong.
//! - `discovery` finds the kinds of targets, and `objects` reads and deletes objects of any kind; `allowance` bounds their memory.
//! - `helm` uninstalls a Helm release, and `delivery` sends the CloudEvent.
//! - `validate` says what is wrong with a Cleaner before it is stored, and `offline` what one in a file would do.

mod act;
mod action;
mod alarms;
mod allowance;
mod checked;
mod delivery;
mod discovery;
mod failure;
#[cfg(test)]
mod fixtures;
mod frozen;
mod guards;
mod helm;
mod index;
mod kind;
mod look;
mod memory;
mod metrics;
mod objects;
pub mod offline;
mod plan;
mod read;
mod rules;
mod schedule;
mod secrets;
mod served;
mod settings;
mod sight;
mod size;
mod snapshot;
mod standing;
mod status;
mod stored;
pub mod validate;
mod validator;
mod variables;
mod watches;
mod who;
mod wiring;
mod world;

pub use metrics::CleanerMetrics;
pub use settings::{CleanerSettings, CleanerSetup, GroupResource, GroupResourceError};
pub use validator::CleanerValidator;
pub use wiring::begin;
