//! What replicas know of ChainRollouts.

use std::sync::Arc;

use kube::Client;
use podloom_api::{ChainRollout, ChainRolloutObject};
use podloom_engine::cache::{Cache, Watch, WhenRefused};
use podloom_engine::readable::Readable;

use crate::metrics::ControllerMetrics;

/// The ChainRollouts of one namespace.
pub type Rollouts = Cache<Readable<ChainRolloutObject>>;

/// Returns a cache of the ChainRollouts of a namespace.
///
/// While a right or the CRD is missing, it is empty.
pub fn rollouts(client: &Client, metrics: &ControllerMetrics, namespace: String) -> Rollouts {
    let watch = Watch {
        refused: WhenRefused::Forgotten,
        ..Watch::ours("ChainRollout", "", &Arc::new(ChainRollout::resource()))
    };
    Cache::watching(client, &metrics.engine, watch, [Some(namespace)])
}
