//! How often something may happen, such as a line in the log.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::{Key, lock};

/// How many keys are remembered. Beyond, everything new is left out until a period ends.
const KEYS: usize = 4096;

/// So many of something for each key in a period; what is more is left out and counted.
#[derive(Debug)]
pub struct Rate<K: Key> {
    most: u64,
    period: Duration,
    keys: Mutex<HashMap<K, Period>>,
}

#[derive(Clone, Copy, Debug)]
struct Period {
    began: Instant,
    count: u64,
    /// Left out in earlier periods, which nobody asked for.
    untold: u64,
}

/// What becomes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It may happen.
    Passed,
    /// It is left out, as the first of its key in this period. After so long, [`Rate::left_out`] knows how many there were.
    FirstLeftOut(Duration),
    /// It is left out.
    LeftOut,
    /// Too many other keys are remembered, so nobody counts it.
    NoRoom,
}

impl<K: Key> Rate<K> {
    /// So many in a period, for each key.
    #[must_use]
    pub fn new(most: u64, period: Duration) -> Self {
        Self {
            most,
            period,
            keys: Mutex::default(),
        }
    }

    /// Counts one.
    pub fn pass(&self, key: &K, now: Instant) -> Passage {
        let mut keys = self.keys();
        let is_over = |period: &Period| now.saturating_duration_since(period.began) >= self.period;
        if !keys.contains_key(key) {
            if keys.len() >= KEYS {
                // What was left out is fetched soon, or nobody wants to know it.
                keys.retain(|_, period| !is_over(period));
            }
            if keys.len() >= KEYS {
                return Passage::NoRoom;
            }
        }
        let new = Period {
            began: now,
            count: 0,
            untold: 0,
        };
        let period = keys.entry(key.clone()).or_insert(new);
        if is_over(period) {
            // Whoever asks for it comes late: what was left out is told with what follows.
            let untold = period.untold + period.count.saturating_sub(self.most);
            *period = Period { untold, ..new };
        }
        period.count += 1;
        match period.count.checked_sub(self.most) {
            None | Some(0) => Passage::Passed,
            Some(1) => {
                let spent = now.saturating_duration_since(period.began);
                Passage::FirstLeftOut(self.period.saturating_sub(spent))
            }
            Some(_) => Passage::LeftOut,
        }
    }

    /// Whether the next one of a key would be left out.
    pub fn is_used_up(&self, key: &K, now: Instant) -> bool {
        let keys = self.keys();
        let period = keys.get(key);
        period.is_some_and(|period| {
            let is_over = now.saturating_duration_since(period.began) >= self.period;
            !is_over && period.count >= self.most
        })
    }

    /// Returns how many of a key were left out in periods that are over, since this was asked last. A period that has begun meanwhile
    /// goes on: whoever had its first one left out asks for it.
    pub fn left_out(&self, key: &K, now: Instant) -> u64 {
        let mut keys = self.keys();
        let Some(period) = keys.get_mut(key) else {
            return 0;
        };
        if now.saturating_duration_since(period.began) < self.period {
            return mem::take(&mut period.untold);
        }
        let left_out = period.untold + period.count.saturating_sub(self.most);
        keys.remove(key);
        left_out
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<K, Period>> {
        lock(&self.keys)
    }
}

#[cfg(test)]
mod tests;
