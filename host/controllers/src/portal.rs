//! PortalExposes and TunnelClasses: Services exposed to the Internet through relays.
//!
//! A tunnel is a Deployment whose pods connect to relays and bring requests for a hostname to a Service. `render` makes it, and
//! it passes the plugin chain. `relays` observes which relays serve the hostname.
#![allow(dead_code, reason = "not wired yet")]

