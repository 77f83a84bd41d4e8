//! How fast pods that wait are made anew: one at first, more while that goes well, and none while others come to wait.

use std::collections::HashSet;
use std::time::Duration;

/// The most pods of a round. With a round a second, the API server has little work of it.
const MOST: usize = 20;
/// How long to wait for the next round.
const ROUND: Duration = Duration::from_secs(1);
/// The same if there is nothing to do.
const REST: Duration = Duration::from_secs(5);
/// The same while no webhook answers. It doubles each time, up to [`LONGEST`].
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);

/// The pace of one leader. A new one begins anew, with one pod.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The UIDs of the pods that waited in the last round; none before the first one.
    known: Option<HashSet<String>>,
    /// How many pods the last round made anew.
    batch: usize,
    /// How many rounds have found new pods since it went well.
    failures: u32,
}

/// What to do now, and when to look again.
#[derive(Debug, PartialEq)]
pub(super) struct Turn {
    /// How many pods to make anew.
    pub(super) pods: usize,
    pub(super) pause: Duration,
}

impl Pace {
    /// The next turn, when these pods wait.
    ///
    /// One that was not there before was created since, and no webhook answered. Another one in its place would wait too.
    pub(super) fn turn(&mut self, waiting: HashSet<String>, is_idle: bool) -> Turn {
        let known = self.known.replace(waiting);
        let now = self.known.iter().flatten();
        let has_new = known.is_some_and(|known| now.clone().any(|uid| !known.contains(uid)));
        if has_new {
            let factor = 2u32.saturating_pow(self.failures);
            self.failures = self.failures.saturating_add(1);
            self.batch = 0;
            return Turn {
                pods: 0,
                pause: PAUSE.saturating_mul(factor).min(LONGEST),
            };
        }
        if is_idle {
            (self.batch, self.failures) = (0, 0);
            return Turn {
                pods: 0,
                pause: REST,
            };
        }
        if self.batch == MOST {
            self.failures = 0;
        }
        self.batch = (self.batch * 2).clamp(1, MOST);
        Turn {
            pods: self.batch,
            pause: ROUND,
        }
    }
}

#[cfg(test)]
mod tests;
