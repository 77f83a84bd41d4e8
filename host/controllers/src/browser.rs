//! Browsers: each gets one pod, lives as long as it, and leaves nothing behind.

mod end;
mod failure;
mod judge;
mod memory;
mod metrics;
mod plan;
mod reconcile;
mod status;
mod world;

pub(crate) use memory::Memory;
pub(crate) use metrics::BrowserMetrics;
pub(crate) use reconcile::BrowserController;
