//! What to do about the warm pods of a BrowserConfig: a pure function of what there is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::{Phase, WarmStatus};
use podloom_engine::plan::later;
use serde::Serialize;

use super::{PoolId, Recipe, is_ready, uid};
use crate::cause;
use crate::pod::{SeenPod, instant};

/// A pod that has ended, or whose containers cannot start, stays for this long: it counts as one, so that nothing is created again and
/// again, and people can look at it.
const SHOWN: Duration = Duration::from_mins(1);
/// How often to look without a reason: demand ends, and a new chain has no event.
pub(crate) const LOOK: Duration = Duration::from_secs(10);
/// The number of pods is written to the status at most this often.
const WRITES: Duration = Duration::from_secs(1);

/// The warm pods of one browser and version.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    /// How many there should be.
    pub(crate) wanted: usize,
    /// How long a pod waits at most.
    pub(crate) max_age: Duration,
    /// How many start at the same time.
    pub(crate) max_starting: usize,
    /// How long a pod may take to start.
    pub(crate) start_within: Duration,
    /// What new ones are made from; none if nobody needs one, or none can be made.
    pub(crate) recipe: Option<Arc<Recipe>>,
    /// Why none can be made.
    pub(crate) problem: Option<String>,
    /// Those that there are.
    pub(crate) pods: Vec<Arc<SeenPod>>,
    /// Why one was refused in this pass.
    pub(crate) refused: Option<String>,
    /// Whether another pass creates the others.
    pub(crate) is_cut_short: bool,
}

/// All warm pods of a BrowserConfig.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    pub(crate) all: Vec<Pool>,
    /// Those that are of no browser and version that should have any.
    pub(crate) others: Vec<Arc<SeenPod>>,
    /// Whether some are left out that are being taken or deleted: if that fails, nothing else says so.
    pub(crate) is_busy: bool,
    /// When their number was last written to the status.
    pub(crate) written: Option<Timestamp>,
}

/// What is to be done about warm pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum PoolAction {
    /// Create so many for each of these pools.
    Create(Vec<(PoolId, usize)>),
    /// Delete these, unless they have changed.
    Delete(Vec<Doomed>),
}

/// A pod to delete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Doomed {
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(skip)]
    pub(crate) version: String,
}

/// What was created for a pool.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) id: PoolId,
    pub(crate) pods: Vec<Arc<SeenPod>>,
    /// Why others were not.
    pub(crate) refused: Option<String>,
    /// Whether others are left to another pass.
    pub(crate) is_cut_short: bool,
}

/// What a pod is to its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is on its way out.
    Going,
    /// It has to go.
    Useless,
    /// It has to go soon: another one is created first.
    Old,
    /// It has ended or cannot start, and is still shown.
    Failed,
    /// It is not ready yet.
    Starting,
    /// A session can take it.
    Ready,
}

/// The pods of a pool with their states, the oldest first.
struct ByState<'p>(Vec<(State, &'p Arc<SeenPod>)>);

impl<'p> ByState<'p> {
    fn of(&self, wanted: State) -> impl Iterator<Item = &'p Arc<SeenPod>> {
        let of = self.0.iter().filter(move |(state, _)| *state == wanted);
        of.map(|(_, pod)| *pod)
    }

    fn count(&self, wanted: State) -> usize {
        self.of(wanted).count()
    }
}

impl Pool {
    fn by_state(&self, now: Timestamp) -> ByState<'_> {
        let mut pods: Vec<_> = self.pods.iter().collect();
        pods.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), uid(pod)));
        let with_state = pods.into_iter().map(|pod| (self.state(pod, now), pod));
        ByState(with_state.collect())
    }

    fn state(&self, pod: &SeenPod, now: Timestamp) -> State {
        let created = instant(pod.metadata.creation_timestamp.as_ref(), now);
        let is_past = |age: Duration| later(created, age) <= now;
        let is_outdated = self.recipe.as_ref().is_some_and(|recipe| {
            let mark = pod.warm.as_ref();
            mark.is_none_or(|mark| mark.recipe != recipe.hash)
        });
        if pod.metadata.deletion_timestamp.is_some() {
            State::Going
        } else if is_outdated || is_past(self.max_age) {
            State::Useless
        } else if has_ended(pod) {
            let ended = cause::finished(pod).unwrap_or(created);
            match later(ended, SHOWN) <= now {
                true => State::Useless,
                false => State::Failed,
            }
        } else if !is_ready(pod) {
            match is_past(self.start_within) {
                true => State::Useless,
                false => State::Starting,
            }
        } else if is_past(self.max_age.mul_f64(0.9)) {
            State::Old
        } else {
            State::Ready
        }
    }

    /// How many to create.
    fn lacking(&self, now: Timestamp) -> usize {
        if self.refused.is_some() || self.is_cut_short || self.recipe.is_none() {
            return 0;
        }
        let by = self.by_state(now);
        let on_the_way = by.count(State::Starting) + by.count(State::Failed);
        let lacking = self
            .wanted
            .saturating_sub(by.count(State::Ready) + on_the_way);
        lacking.min(self.max_starting.saturating_sub(on_the_way))
    }

    /// The pods that have to go: the useless ones; old ones that are replaced; and those that are too many.
    fn doomed(&self, now: Timestamp) -> Vec<Doomed> {
        let by = self.by_state(now);
        // Of those that are too many, the failed go first, then those that start, then ready ones; the youngest of each first.
        let there = [State::Ready, State::Starting, State::Failed];
        let there: Vec<_> = there.into_iter().flat_map(|state| by.of(state)).collect();
        let too_many = there.len().saturating_sub(self.wanted);
        // Old ones serve until others do.
        let needed = self.wanted.saturating_sub(by.count(State::Ready));
        let replaced = by.count(State::Old).saturating_sub(needed);
        let all = by.of(State::Useless);
        all.chain(by.of(State::Old).take(replaced))
            .chain(there.into_iter().rev().take(too_many))
            .filter_map(|pod| Doomed::of(pod))
            .collect()
    }

    /// Why there are fewer than wanted.
    fn obstacle(&self, now: Timestamp) -> Option<String> {
        let of_pod = |(state, pod): &(State, &Arc<SeenPod>)| {
            let why = match state {
                State::Failed => Some(why_ended(pod)),
                State::Starting => {
                    let unschedulable = cause::unschedulable(pod).map(str::to_owned);
                    unschedulable.or_else(|| cause::lacks_config(pod))
                }
                _ => None,
            };
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            why.map(|why| format!("pod {name}: {why}"))
        };
        let why = self.refused.as_ref().or(self.problem.as_ref());
        let of_pods = || self.by_state(now).0.iter().find_map(of_pod);
        let why = why.cloned().or_else(of_pods)?;
        Some(format!("{} {}: {why}", self.id.browser, self.id.version))
    }
}

/// Whether the pod can become ready no more.
fn has_ended(pod: &SeenPod) -> bool {
    match pod.status.phase {
        Some(Phase::Failed | Phase::Succeeded) => true,
        Some(Phase::Running) => cause::of_running(pod).is_some(),
        Some(Phase::Unknown) => false,
        Some(Phase::Pending) | None => cause::of_pending(pod, true).is_some(),
    }
}

fn why_ended(pod: &SeenPod) -> String {
    let pending = cause::of_pending(pod, true).filter(|_| pod.is_pending());
    let why = pending.or_else(|| cause::of_running(pod));
    why.unwrap_or_else(|| cause::of_failed(pod)).to_string()
}

impl Pools {
    /// Returns what to do next; none if all is as it should be, as far as that depends on us.
    pub(crate) fn action(&self, now: Timestamp) -> Option<PoolAction> {
        let is_going = |pod: &SeenPod| pod.metadata.deletion_timestamp.is_some();
        let others = self.others.iter().filter(|pod| !is_going(pod));
        let others = others.filter_map(|pod| Doomed::of(pod));
        let of_pools = self.all.iter().flat_map(|pool| pool.doomed(now));
        let doomed: BTreeSet<Doomed> = others.chain(of_pools).collect();
        if !doomed.is_empty() {
            return Some(PoolAction::Delete(doomed.into_iter().collect()));
        }
        let lacking = self.all.iter();
        let lacking = lacking.map(|pool| (pool.id.clone(), pool.lacking(now)));
        let lacking: Vec<_> = lacking.filter(|(_, count)| *count > 0).collect();
        (!lacking.is_empty()).then_some(PoolAction::Create(lacking))
    }

    /// Takes over pods that were created.
    pub(crate) fn created(&mut self, created: Vec<Created>) {
        for created in created {
            let Created { id, pods, .. } = created;
            let Some(pool) = self.all.iter_mut().find(|pool| pool.id == id) else {
                continue;
            };
            pool.is_cut_short = created.is_cut_short;
            let (own, changed): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| id.has(pod));
            pool.pods.extend(own);
            // The next pass deletes them.
            let changed = (!changed.is_empty()).then(|| {
                "an admission policy changes the labels or annotations of warm pods".to_owned()
            });
            pool.refused = created.refused.or(changed);
        }
    }

    /// Leaves out pods that go.
    pub(crate) fn deleted(&mut self, uids: &[String]) {
        let stays = |pod: &Arc<SeenPod>| !uids.iter().any(|it| *it == uid(pod));
        self.others.retain(stays);
        self.all.iter_mut().for_each(|pool| pool.pods.retain(stays));
    }

    /// Returns why a pod was refused in this pass.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.all.iter().find_map(|pool| pool.refused.as_deref())
    }

    /// Returns when to look again.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        (self.is_busy || !self.all.is_empty()).then(|| later(now, LOOK))
    }

    /// Returns what the status says; none if there should be no warm pods.
    pub(crate) fn status(&self, now: Timestamp) -> Option<WarmStatus> {
        if self.all.is_empty() {
            return None;
        }
        let mut status = WarmStatus::default();
        for pool in &self.all {
            let by = pool.by_state(now);
            // Old ones serve too.
            let ready = by.count(State::Ready) + by.count(State::Old);
            status.ready += i32::try_from(ready).unwrap_or(i32::MAX);
            status.wanted += i32::try_from(pool.wanted).unwrap_or(i32::MAX);
        }
        status.message = self.all.iter().find_map(|pool| pool.obstacle(now));
        Some(status)
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
