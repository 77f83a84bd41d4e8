//! What replicas know of ChainRollouts and ChainExceptions.

use std::sync::Arc;

use kube::{Client, Resource};
use podloom_api::{ChainException, ChainExceptionObject, ChainRollout, ChainRolloutObject};
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

/// ChainExceptions.
pub type ChainExceptions = Cache<Readable<ChainExceptionObject>>;

/// Returns a cache of the ChainExceptions of these namespaces, of all if there are none.
///
/// While a right or the CRD is missing, it is empty.
pub fn chain_exceptions(
    client: &Client,
    metrics: &ControllerMetrics,
    namespaces: &[String],
) -> ChainExceptions {
    let watch = Watch {
        refused: WhenRefused::Forgotten,
        prune: |exception: &mut Readable<ChainExceptionObject>| {
            // People may write much there, and nothing reads it.
            let metadata = exception.meta_mut();
            (metadata.labels, metadata.annotations) = (None, None);
        },
        ..Watch::ours("ChainException", "", &Arc::new(ChainException::resource()))
    };
    let namespaces = match namespaces {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    Cache::watching(client, &metrics.engine, watch, namespaces)
}
