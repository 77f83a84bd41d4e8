//! What to do about the warm pods of a BrowserConfig: a pure function of what there is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::{Phase, WarmStatus};
use podloom_engine::plan::later;
use serde::Serialize;

use super::{Pool, Recipe, is_ready};
use crate::cause;
use crate::pod::{SeenPod, instant};

/// A pod that failed, or does not start, stays for this long: it counts as one, so that nothing is made again and again, and people can
/// look at it.
const SHOWN: Duration = Duration::from_mins(1);
/// How often to look without a reason: demand ends, and a new chain has no event.
const LOOK: Duration = Duration::from_secs(10);
/// The number of pods is written to the status at most this often.
const WRITES: Duration = Duration::from_secs(1);

/// The warm pods of one browser and version, and what is wanted of them.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    pub(crate) pool: Pool,
    /// How many there should be.
    pub(crate) wanted: usize,
    pub(crate) max_age: Duration,
    pub(crate) max_starting: usize,
    /// What new ones are made from, or why none can be made.
    pub(crate) recipe: Result<Arc<Recipe>, String>,
    /// Those that there are.
    pub(crate) pods: Vec<Arc<SeenPod>>,
}

/// All warm pods of a BrowserConfig.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warm {
    pub(crate) keeps: Vec<Keep>,
    /// Those that are of no browser and version that should have any.
    pub(crate) others: Vec<Arc<SeenPod>>,
    /// Whether some are left out that are being taken or deleted: if that fails, nothing else says so.
    pub(crate) is_busy: bool,
    /// How long a pod may take to start.
    pub(crate) start_within: Duration,
    /// Why the API server or the chain refused a pod in this pass.
    pub(crate) refused: Option<String>,
    /// When their number was last written to the status.
    pub(crate) written: Option<Timestamp>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Step {
    /// Make this many pods for a pool.
    Make { pool: Pool, count: usize },
    /// Delete these pods, unless they have changed: by name, with UID and version.
    Drop(Vec<Doomed>),
}

/// A pod to delete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Doomed {
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(skip)]
    pub(crate) version: String,
}

/// What a pod is to its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is on its way out.
    Going,
    /// It has to go.
    Useless,
    /// It has to go soon: another one is made first.
    Old,
    /// It failed, or does not start, and is still shown.
    Failed,
    /// It is not ready yet.
    Starting,
    /// A session can take it.
    Ready,
}

impl Keep {
    fn state(&self, pod: &SeenPod, start_within: Duration, now: Timestamp) -> State {
        let made = instant(pod.metadata.creation_timestamp.as_ref(), now);
        let is_past = |age: Duration| later(made, age) <= now;
        let is_outdated = self.recipe.as_ref().is_ok_and(|recipe| {
            let mark = pod.warm.as_ref();
            mark.is_none_or(|mark| mark.hash != recipe.hash)
        });
        if pod.metadata.deletion_timestamp.is_some() {
            State::Going
        } else if is_outdated || is_past(self.max_age) {
            State::Useless
        } else if ended(pod) {
            if is_past(SHOWN) {
                State::Useless
            } else {
                State::Failed
            }
        } else if !is_ready(pod) {
            match is_past(start_within) {
                true => State::Useless,
                false => State::Starting,
            }
        } else if is_past(self.max_age.mul_f64(0.9)) {
            State::Old
        } else {
            State::Ready
        }
    }
}

/// Whether the pod can become ready no more.
fn ended(pod: &SeenPod) -> bool {
    match pod.status.phase {
        Some(Phase::Failed | Phase::Succeeded) => true,
        Some(Phase::Running) => cause::of_running(pod).is_some(),
        Some(Phase::Unknown) => false,
        Some(Phase::Pending) | None => cause::of_pending(pod, true).is_some(),
    }
}

impl Warm {
    /// Returns the next step; none if all is as it should be, as far as that depends on us.
    pub(crate) fn step(&self, now: Timestamp) -> Option<Step> {
        let is_going = |pod: &SeenPod| pod.metadata.deletion_timestamp.is_some();
        let others = self.others.iter().filter(|pod| !is_going(pod));
        let mut doomed: BTreeSet<Doomed> = others.filter_map(|pod| Doomed::of(pod)).collect();
        for keep in &self.keeps {
            doomed.extend(self.useless(keep, now));
        }
        if !doomed.is_empty() {
            return Some(Step::Drop(doomed.into_iter().collect()));
        }
        if self.refused.is_some() {
            return None;
        }
        self.keeps.iter().find_map(|keep| {
            let count = |state| self.count(keep, state, now);
            let (starting, failed) = (count(State::Starting), count(State::Failed));
            let there = count(State::Ready) + starting + failed;
            let lacking = keep.wanted.saturating_sub(there);
            let count = lacking.min(keep.max_starting.saturating_sub(starting + failed));
            let pool = keep.pool.clone();
            (count > 0 && keep.recipe.is_ok()).then_some(Step::Make { pool, count })
        })
    }

    fn count(&self, keep: &Keep, state: State, now: Timestamp) -> usize {
        let states = keep.pods.iter();
        states
            .filter(|pod| keep.state(pod, self.start_within, now) == state)
            .count()
    }

    /// The pods of a pool that have to go: the useless ones; old ones that are replaced; and those that are too many, the youngest first,
    /// since they may not even have started.
    fn useless(&self, keep: &Keep, now: Timestamp) -> Vec<Doomed> {
        let mut by_age: Vec<&Arc<SeenPod>> = keep.pods.iter().collect();
        by_age.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), super::uid(pod)));
        let of = |wanted: &[State]| {
            let pods = by_age.iter().filter(|pod| {
                let state = keep.state(pod, self.start_within, now);
                wanted.contains(&state)
            });
            pods.copied().collect::<Vec<_>>()
        };
        let (ready, old) = (of(&[State::Ready]), of(&[State::Old]));
        let there = of(&[State::Ready, State::Starting, State::Failed]);
        let too_many = there.len().saturating_sub(keep.wanted);
        // Old ones serve until others do.
        let needed = keep.wanted.saturating_sub(ready.len());
        let replaced = old.len().saturating_sub(needed);
        let going = of(&[State::Useless]).into_iter();
        going
            .chain(old.into_iter().take(replaced))
            .chain(there.into_iter().rev().take(too_many))
            .filter_map(|pod| Doomed::of(pod))
            .collect()
    }

    /// Takes over pods that were made.
    pub(crate) fn made(&mut self, pods: Vec<Arc<SeenPod>>, refused: Option<String>) {
        for pod in pods {
            let mut keeps = self.keeps.iter_mut();
            if let Some(keep) = keeps.find(|keep| keep.pool.has(&pod)) {
                keep.pods.push(pod);
            }
        }
        self.refused = refused;
    }

    /// Leaves out pods that go.
    pub(crate) fn dropped(&mut self, uids: &[String]) {
        let stays = |pod: &Arc<SeenPod>| !uids.iter().any(|uid| *uid == super::uid(pod));
        self.others.retain(stays);
        self.keeps
            .iter_mut()
            .for_each(|keep| keep.pods.retain(stays));
    }

    /// Returns when to look again.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        (self.is_busy || !self.keeps.is_empty()).then(|| later(now, LOOK))
    }

    /// Returns what the status says; none if there should be no warm pods.
    pub(crate) fn status(&self, now: Timestamp) -> Option<WarmStatus> {
        if self.keeps.is_empty() {
            return None;
        }
        let mut status = WarmStatus::default();
        for keep in &self.keeps {
            // Old ones serve too.
            let ready = self.count(keep, State::Ready, now) + self.count(keep, State::Old, now);
            status.ready += i32::try_from(ready).unwrap_or(i32::MAX);
            status.wanted += i32::try_from(keep.wanted).unwrap_or(i32::MAX);
        }
        status.message = self.obstacle(now);
        Some(status)
    }

    /// Why there are fewer than wanted.
    fn obstacle(&self, now: Timestamp) -> Option<String> {
        let of_recipes = self.keeps.iter().find_map(|keep| {
            let why = keep.recipe.as_ref().err()?;
            let Pool {
                browser, version, ..
            } = &keep.pool;
            Some(format!("{browser} {version}: {why}"))
        });
        let of_pods = || {
            self.keeps.iter().find_map(|keep| {
                let mut pods = keep.pods.iter();
                let failed =
                    pods.find(|pod| keep.state(pod, self.start_within, now) == State::Failed)?;
                let name = failed.metadata.name.as_deref().unwrap_or_default();
                let why = cause::of_pending(failed, true)
                    .filter(|_| failed.is_pending())
                    .or_else(|| cause::of_running(failed))
                    .unwrap_or_else(|| cause::of_failed(failed));
                Some(format!("pod {name}: {why}"))
            })
        };
        self.refused.clone().or(of_recipes).or_else(of_pods)
    }

    /// Returns until when a status that differs in nothing but the number of pods waits.
    pub(crate) fn holds_back(&self, now: Timestamp) -> Option<Timestamp> {
        let until = later(self.written?, WRITES);
        (now < until).then_some(until)
    }
}

impl Doomed {
    fn of(pod: &SeenPod) -> Option<Self> {
        let metadata = &pod.metadata;
        Some(Self {
            name: metadata.name.clone()?,
            uid: metadata.uid.clone()?,
            version: metadata.resource_version.clone()?,
        })
    }
}

#[cfg(test)]
mod tests;
