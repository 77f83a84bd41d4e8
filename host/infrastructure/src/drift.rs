//! Compares what Infrastructure Managers have with what is known of it, in two control loops.
//!
//! - `clusters` reads the infrastructures of Clusters. If something is different, the Cluster is woken: it decides what to do, and says
//!   so.
//! - `unclaimed` lists what each account has beside them. An infrastructure without a Cluster whose name says that we made it is an
//!   orphan: it is counted and logged once, and never deleted.
//!
//! Nothing here changes anything. A Cluster that is being deleted, paused, or at work is left alone: its own controller reads its
//! infrastructure, and a read at the same time as a deletion can bring an infrastructure back.
//!
//! An Infrastructure Manager is whatever answers at the URL that somebody wrote: it may be slow, silent or hostile. So the ids of both
//! loops are [tenants](Tenant). A tenant has one turn at a time, and each turn has an end, so a slow server delays only its own
//! tenant. What a turn does not get to has its chance in a later one, since the order is another one each time.

mod clusters;
mod orphans;
mod reads;
mod unclaimed;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use podloom_control_loop::{ControlLoop, Handler, Options, Recorder, Source, Storage};
use tokio_util::sync::CancellationToken;

use self::clusters::Clusters;
use self::unclaimed::Unclaimed;
use super::cluster::Memory;
use super::metrics::InfrastructureMetrics;
use super::resolve::Tenant;
use super::waking::Waking;

pub(crate) use self::reads::Outside;

/// How long one turn of a tenant may take.
const TURN: Duration = Duration::from_mins(2);

/// Compares infrastructures.
pub(crate) struct Drift {
    /// Reads them.
    pub(crate) outside: Outside,
    /// What was read last.
    pub(crate) memory: Memory,
    /// Where Clusters are woken.
    pub(crate) clusters: Waking,
    /// What is counted.
    pub(crate) metrics: InfrastructureMetrics,
}

/// When and how long the loops run, and who measures them.
#[derive(Clone)]
pub(crate) struct Schedule {
    /// How often everything is compared.
    pub(crate) interval: Duration,
    /// Receives the measurements of the loops.
    pub(crate) recorder: Arc<dyn Recorder>,
    /// Ends them.
    pub(crate) stop: CancellationToken,
}

impl Drift {
    /// Returns the work of both loops, which run until they are stopped. Begin it when the caches are filled.
    pub(crate) fn start(self, schedule: &Schedule) -> BoxFuture<'static, ()> {
        let unclaimed = Unclaimed::new(self.outside.clone(), self.metrics.clone());
        let unclaimed = run(unclaimed::NAME, unclaimed::WORKERS, unclaimed, schedule);
        let clusters = run(clusters::NAME, clusters::WORKERS, Clusters(self), schedule);
        future::join(clusters, unclaimed).map(drop).boxed()
    }
}

/// Returns the work of a loop.
fn run<L>(
    name: &'static str,
    workers: usize,
    parts: L,
    schedule: &Schedule,
) -> BoxFuture<'static, ()>
where
    L: Source<Tenant> + Storage<Tenant> + Handler<Tenant, <L as Storage<Tenant>>::Object>,
{
    let parts = Arc::new(parts);
    let control = ControlLoop {
        options: Options {
            workers: NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN),
            resync_interval: Some(schedule.interval),
            ..Options::default()
        },
        recorder: Arc::clone(&schedule.recorder),
        ..ControlLoop::new(name, Arc::clone(&parts), Arc::clone(&parts), parts)
    };
    control.run(schedule.stop.clone()).map(drop).boxed()
}

#[cfg(test)]
mod tests;
