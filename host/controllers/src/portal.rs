//! PortalExposes and TunnelClasses: Services exposed to the Internet through relays.
//!
//! A tunnel is a Deployment whose pods connect to relays and bring requests for a hostname to a Service. `render` makes it, and
//! it passes the plugin chain. `relays` observes which relays serve the hostname.
#![allow(dead_code, reason = "not wired yet")]

pub(crate) mod adopt;
pub(crate) mod authority;
pub(crate) mod check;
pub(crate) mod class;
mod digest;
pub(crate) mod identity;
pub(crate) mod naming;
pub(crate) mod relays;
pub(crate) mod render;
pub(crate) mod settings;
pub(crate) mod version;

pub use relays::{Observation, RelaySettings};
pub use settings::TunnelSettings;
pub use version::{ClientVersion, VersionError};
