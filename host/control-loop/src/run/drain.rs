//! Stops a loop.

use tokio::time::{Instant, timeout_at};
use tracing::info;

use super::Driver;
use crate::queue::FAR;
use crate::{Handler, Id, Report, Storage};

impl<I, St, Ha> Driver<I, St, Ha>
where
    I: Id,
    St: Storage<I>,
    Ha: Handler<I, St::Object>,
{
    /// Lets running handlers finish, then cancels them, then drops them.
    pub(super) async fn drain(mut self) -> Report {
        self.feeds.abort_all();
        let mut report = Report::default();
        let drained = Instant::now() + self.shared.options.drain_timeout.min(FAR);
        self.join_until(drained, &mut report).await;
        self.shared.halt.cancel();
        let stuck = Instant::now() + self.patience;
        self.join_until(stuck, &mut report).await;
        self.workers.abort_all();
        let left = self.running.values().map(|popped| popped.id.to_string());
        report.abandoned.extend(left);
        // A feed ends when it is polled next, unless it blocks its thread.
        let stuck = Instant::now() + self.patience;
        while let Ok(Some(_)) = timeout_at(stuck, self.feeds.join_next()).await {}
        // In the queue, abandoned ids are still running.
        report.queued = self.queue.len().saturating_sub(report.abandoned.len());
        info!(
            "loop" = self.shared.meter.name,
            finished = report.finished,
            abandoned = ?report.abandoned,
            queued = report.queued,
            "the loop has stopped"
        );
        report
    }

    /// Waits for workers until the deadline.
    async fn join_until(&mut self, deadline: Instant, report: &mut Report) {
        while let Ok(Some(joined)) = timeout_at(deadline, self.workers.join_next_with_id()).await {
            let Some((popped, work)) = self.joined(joined) else {
                continue;
            };
            if work.end.is_halted() {
                report.abandoned.push(popped.id.to_string());
            } else if work.kind.is_some() {
                report.finished += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
