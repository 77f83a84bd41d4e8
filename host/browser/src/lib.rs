//! Browsers and BrowserConfigs. A Browser gets one pod, lives as long as that pod, and leaves nothing behind. BrowserConfigs
//! define what the pods look like.

mod act;
mod action;
mod cause;
mod config;
mod confirm;
mod end;
mod failure;
mod judge;
mod kind;
mod memory;
mod metrics;
mod milestone;
mod observe;
mod plan;
mod pod;
pub mod render;
mod status;
mod timeouts;
pub mod validate;
mod wiring;
mod world;

pub use metrics::BrowserMetrics;
pub use timeouts::Timeouts;
pub use wiring::BrowserSetup;
pub use wiring::begin;
