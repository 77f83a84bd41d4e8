//! Traces: how long each step of a session or of an admission review took, sent to a receiver of OpenTelemetry.
//!
//! The code says what its steps are with spans of the target [`podloom_controllers::TRACES`], at the lowest level. Without `--otlp-endpoint` nobody listens to them,
//! and one costs as much as a log line that is filtered out. With it, [`Collect`] makes steps of them, and [`Exporter`] sends
//! those in the background.
//!
//! The trace of a span without a parent has the UID of what it is about, which its field `trace` names: a Browser, or a review. So
//! all passes over a Browser are in one trace, also of other replicas and after restarts, and nothing has to be remembered.
//!
//! Nothing that may be secret is in a field of these spans: no value of a pod, and no text of a plugin or of an error.

mod collect;
mod export;
mod otlp;
mod plugins;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use podloom_controllers::SendMetrics;
use tokio::sync::mpsc;

pub(crate) use collect::Collect;
pub(crate) use export::Exporter;
pub(crate) use otlp::Endpoint;
pub(crate) use plugins::ran;

/// How many steps wait to be sent. What does not fit is dropped.
const QUEUE: usize = 4096;

/// What makes steps, and what sends them to this receiver.
pub(crate) fn to(endpoint: Endpoint) -> (Collect, Exporter) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let metrics = SendMetrics::default();
    let collect = Collect::new(sender, metrics.clone());
    let exporter = Exporter {
        endpoint: Arc::new(endpoint),
        queue,
        metrics,
    };
    (collect, exporter)
}
