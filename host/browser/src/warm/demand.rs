//! How many warm pods are wanted: a rule that can be said in one sentence.
//!
//! As many as the sessions that began within ten seconds, at the busiest time of the last five minutes. Ten seconds is about what a pod
//! takes to be scheduled and to start. If pods take longer, users set `min`.

use std::collections::VecDeque;

use jiff::Timestamp;

/// How many seconds one count is of.
const TICK: i64 = 5;
/// How many ticks are added up: ten seconds of them. So ten seconds that begin within a tick may count a little less.
const WINDOW: i64 = 2;
/// How many counts are kept: five minutes of them.
const KEPT: i64 = 60;

/// When sessions of a pool began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    /// How many began in each tick in which any did, the oldest first.
    ticks: VecDeque<(i64, usize)>,
}

impl Demand {
    /// Notes that a session began.
    pub(crate) fn began(&mut self, now: Timestamp) {
        let tick = now.as_second() / TICK;
        self.forget(tick);
        match self.ticks.back_mut() {
            // A clock that is set back counts for its last tick.
            Some((last, count)) if *last >= tick => *count = count.saturating_add(1),
            _ => self.ticks.push_back((tick, 1)),
        }
    }

    /// Returns how many began within ten seconds, at the busiest time.
    pub(crate) fn busiest(&mut self, now: Timestamp) -> usize {
        self.forget(now.as_second() / TICK);
        let within = |first: i64| -> usize {
            let ticks = self.ticks.iter();
            let ticks = ticks.filter(|(tick, _)| (first..first + WINDOW).contains(tick));
            ticks.map(|(_, count)| count).sum()
        };
        let all = self.ticks.iter().map(|(first, _)| within(*first));
        all.max().unwrap_or(0)
    }

    fn forget(&mut self, tick: i64) {
        while self
            .ticks
            .front()
            .is_some_and(|(old, _)| tick - old >= KEPT)
        {
            self.ticks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
