//! What wakes Cleaners: themselves, and their targets.

use futures::future::BoxFuture;
use futures::{FutureExt, future};

use super::metrics::CleanerMetrics;
use super::settings::CleanerSetup;
use crate::engine::scope::WatchScope;

/// Returns the work of the controller until it is stopped.
pub(crate) fn begin(
    scopes: &[WatchScope],
    _: CleanerSetup,
    _: &CleanerMetrics,
) -> BoxFuture<'static, ()> {
    match scopes.first() {
        Some(first) => first.stop.clone().cancelled_owned().boxed(),
        None => future::ready(()).boxed(),
    }
}
