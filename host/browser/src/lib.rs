//! Browsers and BrowserConfigs. A Browser gets one pod, lives as long as that pod, and leaves nothing behind. BrowserConfigs
//! define what the pods look like.

mod act;
mod cause;
mod config;
mod judge;
mod kind;
mod memory;
mod metrics;
mod plan;
mod pod;
mod policy;
pub mod render;
mod status;
pub mod validate;
mod warm;
mod wiring;
mod world;

pub use metrics::BrowserMetrics;
pub use plan::marks;
pub use wiring::BrowserSetup;
pub use wiring::begin;
pub use world::Timeouts;

#[cfg(test)]
mod tests;
