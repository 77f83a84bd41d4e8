//! What all duties share.

use std::sync::Arc;

use kube::Client;
use podloom_control_loop::LoopMetrics;
use podloom_controllers::{BlockingThreads, Clock, ControllerMetrics};
use podloom_mutators::PluginMetrics;
use podloom_webhook::PeerTurns;

use crate::cli::RunArguments;

/// What all duties share.
pub(super) struct Parts<'a> {
    pub(super) arguments: &'a RunArguments,
    pub(super) client: Client,
    /// One for the whole process, however many duties there are and however often they start.
    pub(super) blocking: BlockingThreads,
    /// The turns to pass the chain, for whoever calls it.
    pub(super) turns: PeerTurns,
    pub(super) clock: Clock,
    pub(super) metrics: ControllerMetrics,
    pub(super) plugins: PluginMetrics,
    /// The metrics of all control loops.
    pub(super) loops: Arc<LoopMetrics>,
    /// The name of the operator's own pod.
    pub(super) instance: Option<String>,
}
