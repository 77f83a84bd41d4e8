//! How a call that takes long gives way to others.
//!
//! Anybody who may write a pod, or a plugin, can make calls that run into their time limit. At full speed, each would take a processor from
//! all other pods for as long. So from [`LONG`] on, a call runs a part of the time only, as long as quick calls end beside it.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use podloom_mutation::CallFailure;
use wasmtime::UpdateDeadline;

use crate::engine::{Permits, TICK, ticks};
use crate::request::Until;

/// From when on a call takes long. Plugins that interpret a script take a few milliseconds.
pub(super) const LONG: Duration = Duration::from_millis(10);
/// How long such a call runs at a time, or up to a tick longer, and how long it gives way.
const RUNS: Duration = Duration::from_millis(2);
const GIVES_WAY: Duration = Duration::from_millis(14);

/// How a call uses its time.
pub(super) struct Pace {
    permits: Arc<Permits>,
    limit: Duration,
    /// The time in which it may still run.
    left: Duration,
    /// The same with the time in which it gives way.
    whole: Duration,
    /// When its pod has no time left.
    until: Until,
    /// When it was looked at, how many ticks there were then, and how many quick calls.
    at: (Instant, u64),
    quick: u64,
}

impl Pace {
    pub(super) fn new(permits: Arc<Permits>, limit: Duration, until: Until) -> Self {
        // With more, plugins after it might have no time, or its own end would be that of the pod.
        let half = until.left().map_or(Duration::MAX, |left| left / 2);
        Self {
            limit,
            left: limit,
            whole: limit.saturating_mul(2).min(half).max(limit),
            until,
            at: (Instant::now(), permits.ticks()),
            quick: permits.quick(),
            permits,
        }
    }

    /// For how many ticks the call runs before [`Self::go_on`] is asked.
    pub(super) fn first(&self) -> u64 {
        self.ticks(LONG)
    }

    /// Blocks while the call gives way. Returns for how many ticks it then runs.
    ///
    /// # Errors
    /// If its time is over, or that of its pod.
    pub(super) fn go_on(&mut self) -> Result<UpdateDeadline, CallFailure> {
        let ran = self.passed();
        self.left = self.left.saturating_sub(ran);
        self.whole = self.whole.saturating_sub(ran);
        if self.left.is_zero() || self.whole.is_zero() {
            return Err(CallFailure::TimedOut { limit: self.limit });
        }
        let quick = self.permits.quick();
        if mem::replace(&mut self.quick, quick) != quick {
            let left = self.until.left().unwrap_or(GIVES_WAY);
            thread::sleep(GIVES_WAY.min(left));
            self.whole = self.whole.saturating_sub(self.passed());
        }
        if self.until.is_over() {
            return Err(CallFailure::Overdue);
        }
        Ok(UpdateDeadline::Continue(self.ticks(RUNS)))
    }

    /// The time since it was asked last. If the whole process was paused, as a throttled container is, nothing ticked.
    fn passed(&mut self) -> Duration {
        let now = (Instant::now(), self.permits.ticks());
        let (at, ticks) = mem::replace(&mut self.at, now);
        let ticks = u32::try_from(now.1 - ticks).unwrap_or(u32::MAX);
        now.0.duration_since(at).min(TICK.saturating_mul(ticks))
    }

    fn ticks(&self, time: Duration) -> u64 {
        let left = self.until.left().unwrap_or(time);
        ticks(time.min(self.left).min(left))
    }
}
