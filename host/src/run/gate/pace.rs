//! How fast pods that wait are replaced: one at first, more while that goes well, and only one now and then while it does not.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::evict::Target;

/// The most pods of a round. With a round a second, the API server has little work of it.
const MOST: usize = 20;
/// How long to wait for the next round.
const ROUND: Duration = Duration::from_secs(1);
/// The same if there is nothing to do.
pub(super) const REST: Duration = Duration::from_secs(10);
/// The same while no webhook answers. It doubles each time, up to [`LONGEST`].
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);
/// How long a controller may take to replace a pod.
const REPLACED: SignedDuration = SignedDuration::from_secs(60);

/// The pace of one leader. A new one starts again with one pod.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The UIDs of the pods of the last round.
    known: HashSet<String>,
    /// Owners of pods that were evicted, by UID, and when that was. If another pod of theirs waits, no webhook answered.
    tried: HashMap<String, Timestamp>,
    /// How often that was so, by the UID of the owner.
    failures: HashMap<String, u32>,
    /// How many pods the last round had evicted.
    batch: usize,
    /// How many times in a row it went wrong.
    in_a_row: u32,
}

/// What to do now, and when to look again.
#[derive(Debug, PartialEq)]
pub(super) struct Turn {
    /// How many pods to evict.
    pub(super) pods: usize,
    pub(super) pause: Duration,
}

impl Pace {
    /// The next turn. Sorts the pods: those come first whose owners failed least, and then one owner after the other.
    pub(super) fn turn(&mut self, waiting: &mut [Target], now: Timestamp) -> Turn {
        let has_failed = self.note_failures(waiting, now);
        self.known = waiting.iter().map(|it| it.uid.clone()).collect();
        waiting.sort_by(|a, b| self.place(a).cmp(&self.place(b)));
        if has_failed {
            let factor = 2u32.saturating_pow(self.in_a_row);
            self.in_a_row = self.in_a_row.saturating_add(1);
            self.batch = 0;
            let pause = PAUSE.saturating_mul(factor).min(LONGEST);
            return Turn { pods: 0, pause };
        }
        if waiting.is_empty() {
            (self.batch, self.in_a_row) = (0, 0);
            if self.tried.is_empty() {
                self.failures.clear();
            }
            return Turn {
                pods: 0,
                pause: REST,
            };
        }
        if self.batch == MOST {
            self.in_a_row = 0;
        }
        self.batch = (self.batch * 2).clamp(1, MOST);
        Turn {
            pods: self.batch,
            pause: ROUND,
        }
    }

    /// Whether pods that replaced those of this owner waited again.
    pub(super) fn has_failed(&self, owner: &str) -> bool {
        self.failures.contains_key(owner)
    }

    /// A pod of this owner was evicted.
    pub(super) fn evicted(&mut self, owner: &str, now: Timestamp) {
        self.tried.insert(owner.to_owned(), now);
    }

    /// Whether a pod that replaced an evicted one waits again. Each owner counts once for each try.
    fn note_failures(&mut self, waiting: &[Target], now: Timestamp) -> bool {
        self.tried
            .retain(|_, at| now.duration_since(*at) < REPLACED);
        let mut has_failed = false;
        for pod in waiting.iter().filter(|it| !self.known.contains(&it.uid)) {
            let tried = self.tried.get(&pod.owner.uid);
            // The API server's times are in seconds. A pod that was only not listed before is older.
            let is_newer = |at: &Timestamp| {
                pod.created
                    .is_some_and(|it| it.as_second() >= at.as_second())
            };
            if tried.is_some_and(is_newer) {
                self.tried.remove(&pod.owner.uid);
                let failures = self.failures.entry(pod.owner.uid.clone()).or_default();
                *failures = failures.saturating_add(1);
                has_failed = true;
            }
        }
        has_failed
    }

    fn place<'w>(&self, pod: &'w Target) -> (u32, [&'w str; 4]) {
        let failures = self.failures.get(&pod.owner.uid).copied();
        let names = [&pod.namespace, &pod.owner.kind, &pod.owner.name, &pod.name];
        (failures.unwrap_or_default(), names.map(String::as_str))
    }
}

#[cfg(test)]
mod tests;
