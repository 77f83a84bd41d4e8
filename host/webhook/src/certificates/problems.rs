//! What goes wrong in a loop: counted each time, logged when it changes, tried again after growing pauses.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::metrics::CertificateMetrics;

/// The problems of one loop.
pub(super) struct Problems {
    /// The name of the loop, in metrics and logs.
    of: &'static str,
    metrics: CertificateMetrics,
    /// The first and the longest pause after a failure.
    pauses: (Duration, Duration),
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    problem: Option<String>,
    /// How often something went wrong in a row.
    times: u32,
}

impl Problems {
    pub(super) fn new(
        of: &'static str,
        metrics: CertificateMetrics,
        pauses: (Duration, Duration),
    ) -> Self {
        Self {
            of,
            metrics,
            pauses,
            last: Mutex::default(),
        }
    }

    /// Counts a problem, logs it unless it is the same as the last one, and returns when to try again.
    pub(super) fn report(&self, problem: &str) -> Duration {
        self.metrics.failed(self.of);
        let mut last = self.last();
        if last.problem.as_deref() != Some(problem) {
            tracing::warn!(
                "loop" = self.of,
                error = problem,
                "cannot take care of the webhooks' certificate"
            );
            last.problem = Some(problem.to_owned());
        }
        let (first, longest) = self.pauses;
        let pause = first.saturating_mul(2_u32.saturating_pow(last.times.min(16)));
        last.times = last.times.saturating_add(1);
        pause.min(longest)
    }

    /// Forgets the last problem: this time all was well.
    pub(super) fn resolve(&self) {
        let mut last = self.last();
        if last.problem.is_some() {
            tracing::info!(
                "loop" = self.of,
                "the problem with the webhooks' certificate is solved"
            );
        }
        *last = Last::default();
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
