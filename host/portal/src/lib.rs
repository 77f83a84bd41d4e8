//! PortalExposes and TunnelClasses: Services exposed to the Internet through relays.
//!
//! A tunnel is a Deployment whose pods connect to relays and bring requests for a hostname to a Service. `render` makes it, and
//! it passes the plugin chain. `relays` observes which relays serve the hostname.

mod act;
mod action;
mod adopt;
mod authority;
mod check;
mod class;
mod class_kind;
mod conditions;
mod deployment;
mod digest;
mod identity;
mod kind;
mod memory;
mod metrics;
mod naming;
mod notices;
mod observe;
pub mod offline;
mod phase;
mod plan;
mod relays;
mod release;
mod render;
mod rivals;
mod rolls;
mod service;
mod settings;
mod status;
mod step;
pub mod validate;
mod verdict;
mod version;
mod view;
mod wiring;
mod world;

pub use class::Candidate;
pub use metrics::PortalMetrics;
pub use relays::{Observation, RelaySettings};
pub use settings::TunnelSettings;
pub use version::{ClientVersion, VersionError};
pub use wiring::PortalSetup;
pub use wiring::begin;
pub use world::ChainPolicy;
