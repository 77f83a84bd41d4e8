//! Log lines about requests, and those of plugins. Anybody who reaches the webhook can cause them, so there are only so many, and then a
//! count.

use std::collections::HashMap;
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::{Key, lock};

/// How many keys are remembered. Beyond, everything new is left out until a period ends.
const KEYS: usize = 4096;

const PERIOD: Duration = Duration::from_secs(10);
/// Lines of one kind in a period because of one peer.
const OF_ONE_PEER: u64 = 100;
/// Those about one namespace: a peer speaks for many.
const OF_ONE_NAMESPACE: u64 = 20;

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
        let mut keys = lock(&self.keys);
        if !keys.contains_key(key) {
            if keys.len() >= KEYS {
                // What was left out is fetched soon, or nobody wants to know it.
                keys.retain(|_, period| !self.is_over(period, now));
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
        if self.is_over(period, now) {
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
        let keys = lock(&self.keys);
        let period = keys.get(key);
        period.is_some_and(|period| !self.is_over(period, now) && period.count >= self.most)
    }

    /// Returns how many of a key were left out in periods that are over, since this was asked last. A period that has begun meanwhile
    /// goes on: whoever had its first one left out asks for it.
    pub fn left_out(&self, key: &K, now: Instant) -> u64 {
        let mut keys = lock(&self.keys);
        let Some(period) = keys.get_mut(key) else {
            return 0;
        };
        if !self.is_over(period, now) {
            return mem::take(&mut period.untold);
        }
        let left_out = period.untold + period.count.saturating_sub(self.most);
        keys.remove(key);
        left_out
    }

    fn is_over(&self, period: &Period, now: Instant) -> bool {
        now.saturating_duration_since(period.began) >= self.period
    }
}

/// Who caused lines, and what they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cause {
    /// What they say, in a few words.
    pub about: &'static str,
    /// The plugin of which they are.
    pub plugin: Option<String>,
    /// Who asked for what they are about; none for the operator itself.
    pub peer: Option<IpAddr>,
    /// The namespace that it named.
    pub namespace: Option<String>,
}

/// Decides which of these lines are logged. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lines {
    of_peer: Arc<Rate<Cause>>,
    of_namespace: Arc<Rate<Cause>>,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            of_peer: Arc::new(Rate::new(OF_ONE_PEER, PERIOD)),
            of_namespace: Arc::new(Rate::new(OF_ONE_NAMESPACE, PERIOD)),
        }
    }
}

impl Lines {
    /// Whether a line may be logged. Those that may not are counted, and the count is logged.
    #[must_use]
    pub fn may(&self, cause: Cause) -> bool {
        // The peer first: it can invent namespaces.
        let of_peer = Cause {
            namespace: None,
            ..cause.clone()
        };
        if self.of_peer.is_used_up(&of_peer, now()) {
            return passes(&self.of_peer, of_peer) == Passage::Passed;
        }
        // Only what its namespace lets pass counts for a peer, or one namespace could use up the lines of all others. If too many
        // namespaces are remembered, the limit of the peer is what holds.
        let of_namespace = passes(&self.of_namespace, cause);
        matches!(of_namespace, Passage::Passed | Passage::NoRoom)
            && passes(&self.of_peer, of_peer) == Passage::Passed
    }
}

fn passes(rate: &Arc<Rate<Cause>>, cause: Cause) -> Passage {
    let passage = rate.pass(&cause, now());
    if let (Passage::FirstLeftOut(rest), Ok(runtime)) = (passage, Handle::try_current()) {
        let rate = Arc::clone(rate);
        runtime.spawn(async move {
            tokio::time::sleep(rest).await;
            let Cause {
                about,
                plugin,
                peer,
                namespace,
            } = &cause;
            tracing::warn!(
                peer = peer.map(tracing::field::display),
                namespace,
                plugin,
                about,
                left_out = rate.left_out(&cause, now()),
                "log lines were left out: there were too many of this kind"
            );
        });
    }
    passage
}

/// By the clock of the runtime, which tests can stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests;
