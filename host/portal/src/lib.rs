//! PortalExposes and TunnelClasses: Services exposed to the Internet through relays.
//!
//! A tunnel is a Deployment whose pods connect to relays and bring requests for a hostname to a Service. `render` makes it, and
//! it passes the plugin chain. `relays` observes which relays serve the hostname.

mod act;
mod check;
mod class;
mod conditions;
mod deployment;
mod identity;
mod kind;
mod memory;
mod metrics;
mod naming;
pub mod offline;
mod plan;
mod relays;
mod render;
mod rivals;
mod rolls;
mod service;
mod settings;
mod step;
pub mod validate;
mod verdict;
mod view;
mod wiring;
mod world;

pub use class::Candidate;
pub use metrics::PortalMetrics;
pub use relays::{Observation, RelaySettings};
pub use settings::TunnelSettings;
pub use settings::{ClientVersion, VersionError};
pub use wiring::PortalSetup;
pub use wiring::begin;
pub use world::ChainPolicy;

#[cfg(test)]
mod tests;
