//! The next step of a rollout. Pure: the same world and time give the same plan.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use podloom_api::names::rollout::reason;
use podloom_api::{
    ChainRolloutObject, ChainRolloutSpec, ChainRolloutStatus, PassedPods, RolloutCounts,
    RolloutLimits, RolloutPhase, RolloutPods, RolloutReplica, RolloutShare, RolloutStep,
    RolloutVerdict, duration,
};
use podloom_engine::conditions::{Summary, conditions, time};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};
use podloom_engine::shown::{few, short_digest};
use serde::Serialize;

use crate::judge::{Evidence, Verdict, judge, mean};
use crate::tally::Lives;

/// How often a rollout is judged.
pub(crate) const TICK: Duration = Duration::from_secs(5);
/// A pass comes a moment after that.
const MOMENT: Duration = Duration::from_millis(100);
/// How much time one judgement can stand for: after a pause of the process, nobody has looked meanwhile.
const LONGEST: Duration = Duration::from_secs(30);
/// How many candidates that were taken back are remembered.
const REJECTED: usize = 20;

/// All that a plan depends on.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) rollout: ChainRolloutObject,
    /// The name of the ChainRollout that counts, if it is another one.
    pub(crate) older: Option<String>,
    /// For how long nobody has judged; zero right after a judgement, and when this replica has just become the leader.
    pub(crate) unjudged: Duration,
    /// The replicas that have not written for long.
    pub(crate) gone: Vec<String>,
    pub(crate) lives: Lives,
}

impl World {
    /// Takes over the ChainRollout as it was written.
    pub(crate) fn written(&mut self, rollout: ChainRolloutObject) {
        self.unjudged = Duration::ZERO;
        self.gone.clear();
        let number = |it: &ChainRolloutObject| it.status.as_ref().map(|status| status.rollout);
        if number(&rollout) != number(&self.rollout) {
            // They were those of the rollout before.
            self.lives = Lives::default();
        }
        self.rollout = rollout;
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Write the status.
    WriteStatus(Box<ChainRolloutStatus>),
}

/// Plans the next step.
pub(crate) fn plan(world: &World, now: Timestamp) -> Plan<Action> {
    if world.rollout.metadata.deletion_timestamp.is_some() {
        return Plan::wait(Then::Change);
    }
    let seen = world.rollout.status.clone().unwrap_or_default();
    let mut next = Next {
        world,
        now,
        lives: world.lives,
        status: seen.clone(),
        notices: Vec::new(),
    };
    next.forget_the_gone();
    next.decide();
    next.describe();
    match next.status == seen {
        true => Plan::wait(Then::At(later(now, TICK + MOMENT))),
        false => Plan::act(Action::WriteStatus(Box::new(next.status))).with_notices(next.notices),
    }
}

/// Returns the time in which pods have to be Ready now.
pub(crate) fn ready_within(spec: &ChainRolloutSpec, status: &ChainRolloutStatus) -> Duration {
    let limits = limits(spec, status.step);
    duration::parse(&limits.ready_within).unwrap_or(Duration::from_mins(5))
}

/// The limits of a step.
fn limits(spec: &ChainRolloutSpec, step: i32) -> &RolloutLimits {
    let own = step_of(spec, step).and_then(|step| step.limits.as_ref());
    own.unwrap_or(&spec.limits)
}

fn step_of(spec: &ChainRolloutSpec, step: i32) -> Option<&RolloutStep> {
    spec.steps.get(usize::try_from(step).ok()?)
}

/// Which chains the replicas have.
enum Chains {
    /// No replica reports.
    Unknown,
    /// No replica has a candidate.
    NoCandidate,
    /// They have different ones, or some of them none.
    Differ(String),
    /// All have these.
    Agreed { serving: String, candidate: String },
}

struct Next<'w> {
    world: &'w World,
    now: Timestamp,
    /// Of the pods of this rollout.
    lives: Lives,
    status: ChainRolloutStatus,
    notices: Vec<Notice>,
}

impl Next<'_> {
    fn spec(&self) -> &ChainRolloutSpec {
        &self.world.rollout.spec
    }

    /// What replicas counted that are gone is kept.
    fn forget_the_gone(&mut self) {
        for name in &self.world.gone {
            let Some(replica) = self.status.replicas.remove(name) else {
                continue;
            };
            if replica.rollout == self.status.rollout {
                self.status.gone.get_or_insert_default().add(replica.counts);
            }
        }
    }

    fn decide(&mut self) {
        if let Some(older) = &self.world.older {
            self.status.shares.clear();
            let message = format!(
                "ChainRollout {older} of this namespace is older, and only one counts; delete one of them"
            );
            return self.wait_for(reason::ANOTHER_ROLLOUT, message);
        }
        let wrong = check(self.spec()).err();
        match (self.is_under_way(), wrong) {
            // No pod changes by a typo, and limits count as before.
            (true, wrong) => self.go_on(wrong),
            (false, None) => self.rest(),
            (false, Some(wrong)) if !self.has_ended() => self.wait_for(reason::INVALID, wrong),
            (false, Some(_)) => {}
        }
    }

    fn is_under_way(&self) -> bool {
        self.status.phase.is_some_and(RolloutPhase::is_under_way)
    }

    fn has_ended(&self) -> bool {
        self.status.phase.is_some_and(RolloutPhase::is_final)
    }

    /// Nothing is under way: perhaps something begins.
    fn rest(&mut self) {
        let chains = chains(&self.status.replicas);
        let Chains::Agreed { serving, candidate } = chains else {
            if self.has_ended() {
                return;
            }
            return match chains {
                Chains::Differ(how) => self.wait_for(reason::REPLICAS_DIFFER, how),
                Chains::NoCandidate => self.wait_for(
                    reason::NO_CANDIDATE,
                    "there is no candidate: put a chain into the directory of --candidate",
                ),
                Chains::Unknown | Chains::Agreed { .. } => self.wait_for(
                    reason::NO_REPLICAS,
                    "no replica of the operator reports: start those that pass pods through the chain with --candidate and --rollout",
                ),
            };
        };
        let is_known = self.has_ended() && self.status.candidate.as_ref() == Some(&candidate);
        let is_new_attempt = self.spec().attempt > self.status.attempt;
        if is_known && !is_new_attempt {
            let is_other = serving != candidate && self.status.serving.as_ref() != Some(&serving);
            let is_complete = self.status.phase == Some(RolloutPhase::Completed);
            if is_complete && is_other {
                self.abort_for_serving(&serving);
            } else if is_complete && self.decision(&candidate) == Some(RolloutVerdict::Abort) {
                self.abort_by_hand();
            } else if is_complete && serving == candidate {
                // From now on it is a chain like any other: if it is replaced, even by the one before it, that one serves.
                self.status.serving = Some(serving);
                self.status.shares.clear();
            }
            return;
        }
        if serving == candidate {
            let message = format!(
                "the candidate {} is the serving chain",
                short_digest(&candidate)
            );
            return self.wait_for(reason::SAME_CHAIN, message);
        }
        if self.status.rejected.contains(&candidate) && !is_new_attempt {
            let message = format!(
                "the candidate {} was taken back or given up before; podloom rollout resume begins again with it",
                short_digest(&candidate)
            );
            return self.wait_for(reason::REJECTED, message);
        }
        if self.spec().paused {
            return self.wait_for(reason::PAUSED, "spec.paused holds the beginning");
        }
        self.begin(serving, candidate);
    }

    fn begin(&mut self, serving: String, candidate: String) {
        let attempt = self.spec().attempt;
        let message = format!(
            "the candidate {} begins to take the place of {}",
            short_digest(&candidate),
            short_digest(&serving)
        );
        let before = std::mem::take(&mut self.status);
        let mut rejected = before.rejected;
        rejected.retain(|it| *it != candidate);
        self.lives = Lives::default();
        self.status = ChainRolloutStatus {
            observed_generation: before.observed_generation,
            conditions: before.conditions,
            replicas: before.replicas,
            rejected,
            serving: Some(serving),
            candidate: Some(candidate),
            attempt,
            rollout: before.rollout.saturating_add(1),
            started_at: Some(time(self.now)),
            phase: Some(RolloutPhase::Progressing),
            ..ChainRolloutStatus::default()
        };
        self.notices
            .push(Notice::normal(reason::STEP_BEGUN, message));
        self.enter(0);
    }

    /// A rollout is under way.
    fn go_on(&mut self, wrong: Option<String>) {
        let (serving, candidate) = (self.status.serving.clone(), self.status.candidate.clone());
        let (serving, candidate) = (serving.unwrap_or_default(), candidate.unwrap_or_default());
        let replicas = self.status.replicas.values();
        let chains_of: Vec<_> = replicas.filter_map(|it| it.serving.clone()).collect();
        if let Some(other) = chains_of
            .iter()
            .find(|it| **it != serving && **it != candidate)
        {
            return self.abort_for_serving(other);
        }
        if !chains_of.is_empty() && chains_of.iter().all(|it| *it == candidate) {
            let message = "the candidate became the serving chain meanwhile";
            return self.end(RolloutPhase::Completed, reason::SAME_CHAIN, message);
        }
        if let Chains::Agreed {
            candidate: other, ..
        } = chains(&self.status.replicas)
            && other != candidate
            && !self.spec().paused
            && wrong.is_none()
        {
            self.status.phase = Some(RolloutPhase::Waiting);
            return self.rest();
        }
        match self.decision(&candidate) {
            Some(RolloutVerdict::Abort) => return self.abort_by_hand(),
            Some(RolloutVerdict::Promote) => {
                let message = "somebody had every pod pass it by hand";
                return self.end(RolloutPhase::Completed, reason::PROMOTED, message);
            }
            None => {}
        }
        let evidence = Evidence {
            counts: self.counts(),
            lives: self.lives,
        };
        if let Some(Verdict { reason, message }) =
            judge(limits(self.spec(), self.status.step), &evidence)
        {
            return self.end(RolloutPhase::RolledBack, reason, message);
        }
        self.move_on(&candidate, wrong);
    }

    /// No limit is reached: the step goes on, or the next one begins.
    fn move_on(&mut self, candidate: &str, wrong: Option<String>) {
        let lacking = self.lacking(candidate);
        let is_paused = self.spec().paused;
        let is_due = self.world.unjudged >= TICK;
        if is_due {
            self.publish();
            if lacking.is_none() && self.late().is_empty() && !is_paused && wrong.is_none() {
                let seconds = self.world.unjudged.min(LONGEST).as_secs();
                self.status.judged_seconds += i64::try_from(seconds).unwrap_or_default();
            }
        }
        self.status.phase = Some(match is_paused {
            true => RolloutPhase::Paused,
            false => RolloutPhase::Progressing,
        });
        if let Some(wrong) = wrong {
            return self.say(reason::INVALID, wrong);
        }
        let Some(step) = step_of(self.spec(), self.status.step).cloned() else {
            let number = self.status.step + 1;
            let message = format!(
                "spec.steps has no step {number} any more; give it again, or use podloom rollout promote"
            );
            return self.say(reason::INVALID, message);
        };
        let least = duration::parse(&step.duration).unwrap_or_default();
        let time_left = least.saturating_sub(Duration::from_secs(
            self.status.judged_seconds.try_into().unwrap_or_default(),
        ));
        let pods_left = i64::from(step.pods) - (self.got(&step) - self.status.pods_before);
        if let Some(how) = lacking {
            return self.say(reason::REPLICAS_DIFFER, how);
        }
        if is_paused {
            return self.say(reason::PAUSED, "spec.paused holds this step");
        }
        // Not with each pod: that would be a write each time. And a new leader looks around first.
        let is_said = self.status.reason.as_deref() == Some(reason::STEP_BEGUN);
        if !is_due && is_said {
            return;
        }
        if time_left > Duration::ZERO || pods_left > 0 || !is_due {
            let message = self.outlook(time_left, pods_left);
            return self.say(reason::STEP_BEGUN, message);
        }
        let next = self.status.step + 1;
        match step_of(self.spec(), next) {
            Some(_) => self.enter(next),
            None => self.end(
                RolloutPhase::Completed,
                reason::ALL_STEPS,
                "all steps were taken",
            ),
        }
    }

    /// What the next step waits for.
    fn outlook(&self, time_left: Duration, pods_left: i64) -> String {
        let late = self.late();
        let what = match late.as_slice() {
            [] => format!(
                "the next step begins after {} more, and {} more pods",
                duration::print(time_left),
                pods_left.max(0)
            ),
            late => format!("waits for replicas that do not follow yet: {}", few(late)),
        };
        match self.lives.is_blind {
            false => what,
            true => {
                what + "; without the right to watch pods, nobody sees whether they become Ready or restart"
            }
        }
    }

    /// Begins a step.
    fn enter(&mut self, number: i32) {
        let Some(step) = step_of(self.spec(), number).cloned() else {
            return;
        };
        self.publish();
        let before = self.got(&step);
        let status = &mut self.status;
        status.step = number;
        status.judged_seconds = 0;
        status.pods_before = before;
        if step.percent > 0 {
            status.shares.push(RolloutShare {
                percent: step.percent,
                namespace_selector: step.namespace_selector.clone(),
            });
        }
        status.percent = status.percent.max(step.percent);
        let where_ = match &step.namespace_selector {
            None => "",
            Some(_) => " of the namespaces that it selects",
        };
        let message = match step.percent {
            0 => format!("step {} began: pods are only tried", number + 1),
            percent => format!(
                "step {} began: {percent} percent of all owners{where_} pass the candidate",
                number + 1
            ),
        };
        self.notices
            .push(Notice::normal(reason::STEP_BEGUN, message.clone()));
        self.say(reason::STEP_BEGUN, message);
    }

    fn end(&mut self, phase: RolloutPhase, reason: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.publish();
        let is_complete = phase == RolloutPhase::Completed;
        let everybody = RolloutShare {
            percent: 100,
            namespace_selector: None,
        };
        self.status.shares = is_complete.then_some(everybody).into_iter().collect();
        self.status.percent = if is_complete { 100 } else { 0 };
        self.status.phase = Some(phase);
        let candidate = self.status.candidate.clone().unwrap_or_default();
        if !is_complete {
            let rejected = &mut self.status.rejected;
            rejected.retain(|it| *it != candidate);
            rejected.push(candidate.clone());
            let excess = rejected.len().saturating_sub(REJECTED);
            rejected.drain(..excess);
        }
        let candidate = short_digest(&candidate);
        let (note, is_bad) = match phase {
            RolloutPhase::RolledBack => (
                format!("took the candidate {candidate} back: {message}"),
                true,
            ),
            RolloutPhase::Aborted => (
                format!("gave the candidate {candidate} up: {message}"),
                true,
            ),
            _ => (
                format!("every pod passes the candidate {candidate}: {message}"),
                false,
            ),
        };
        self.notices.push(match is_bad {
            true => Notice::warning(reason, note),
            false => Notice::normal(reason, note),
        });
        self.say(reason, message);
    }

    /// What a person decided about a candidate.
    fn decision(&self, candidate: &str) -> Option<RolloutVerdict> {
        let decision = self.spec().decision.as_ref();
        let decision = decision.filter(|it| it.candidate == candidate);
        decision.map(|it| it.verdict)
    }

    fn abort_by_hand(&mut self) {
        let message = "somebody gave it up by hand";
        self.end(RolloutPhase::Aborted, reason::ABORTED, message);
    }

    fn abort_for_serving(&mut self, other: &str) {
        let message = format!(
            "the serving chain was changed to {}, so this rollout began from another one",
            short_digest(other)
        );
        self.end(RolloutPhase::Aborted, reason::SERVING_CHANGED, message);
    }

    fn wait_for(&mut self, reason: &'static str, message: impl Into<String>) {
        self.status.phase = Some(RolloutPhase::Waiting);
        self.status.shares.clear();
        self.status.percent = 0;
        self.status.progress = None;
        self.say(reason, message);
    }

    fn say(&mut self, reason: &'static str, message: impl Into<String>) {
        self.status.reason = Some(reason.to_owned());
        self.status.message = Some(message.into());
    }

    /// Which replicas do not take part yet, in a sentence.
    fn lacking(&self, candidate: &str) -> Option<String> {
        let replicas = &self.status.replicas;
        if replicas.is_empty() {
            return Some("waits: no replica of the operator reports".to_owned());
        }
        let lacking = replicas
            .iter()
            .filter(|(_, it)| it.candidate.as_deref() != Some(candidate));
        let names: Vec<_> = lacking.map(|(name, _)| name.as_str()).collect();
        (!names.is_empty())
            .then(|| format!("waits for replicas without this candidate: {}", few(&names)))
    }

    /// The replicas that do not go by this rollout yet.
    fn late(&self) -> Vec<&str> {
        let replicas = self.status.replicas.iter();
        let late = replicas.filter(|(_, it)| it.rollout != self.status.rollout);
        late.map(|(name, _)| name.as_str()).collect()
    }

    /// What all replicas counted.
    fn counts(&self) -> RolloutCounts {
        let mut sum = self.status.gone.unwrap_or_default();
        let replicas = self.status.replicas.values();
        for replica in replicas.filter(|it| it.rollout == self.status.rollout) {
            sum.add(replica.counts);
        }
        sum
    }

    /// How many pods the candidate got that count for a step.
    fn got(&self, step: &RolloutStep) -> i64 {
        let RolloutCounts {
            candidate, tried, ..
        } = self.counts();
        match step.percent {
            0 => tried.pods,
            _ => candidate.pods,
        }
    }

    /// Publishes what a judgement is made of.
    fn publish(&mut self) {
        let counts = self.counts();
        let Lives {
            serving, candidate, ..
        } = self.lives;
        let of = |passed: &PassedPods, life: crate::tally::Life| RolloutPods {
            reviewed: passed.pods,
            denied: passed.denied,
            failed: passed.failed,
            mean_microseconds: mean(passed).unwrap_or_default(),
            ready: life.ready,
            unready: life.unready,
            restarted: life.restarted,
        };
        let status = &mut self.status;
        status.serving_pods = of(&counts.serving, serving);
        status.candidate_pods = of(&counts.candidate, candidate);
        status.tried = counts.tried;
        status.judgements = status.judgements.saturating_add(1);
    }

    /// Says the same as conditions.
    fn describe(&mut self) {
        let steps = self.spec().steps.len();
        let generation = self.world.rollout.metadata.generation;
        let status = &mut self.status;
        status.observed_generation = generation;
        let phase = status.phase.unwrap_or(RolloutPhase::Waiting);
        status.progress = match phase {
            RolloutPhase::Waiting => None,
            RolloutPhase::Completed => Some(format!("{steps}/{steps}")),
            _ => Some(format!("{}/{steps}", status.step + 1)),
        };
        let because = status.reason.clone().unwrap_or_default();
        let message = status.message.clone().unwrap_or_default();
        let is = |reasons: &[&str]| reasons.contains(&because.as_str());
        let is_harmless = is(&[reason::NO_CANDIDATE, reason::SAME_CHAIN]);
        // As for a minute after each new ConfigMap.
        let is_on_its_way = is(&[reason::NO_REPLICAS, reason::REPLICAS_DIFFER]);
        let summary = match phase {
            _ if because == reason::INVALID => Summary::Stalled,
            _ if because == reason::PAUSED => Summary::Waiting,
            RolloutPhase::Waiting if is_harmless => Summary::Ready,
            RolloutPhase::Waiting if is_on_its_way => Summary::Reconciling,
            RolloutPhase::Waiting => Summary::Stalled,
            RolloutPhase::Progressing => Summary::Reconciling,
            RolloutPhase::Paused => Summary::Waiting,
            RolloutPhase::Completed => Summary::Ready,
            RolloutPhase::RolledBack | RolloutPhase::Aborted => Summary::Stalled,
        };
        let all = summary.conditions(&because, &message);
        let before = status.conditions.as_ref();
        status.conditions = Some(conditions(before, all.into(), generation, self.now));
    }
}

/// Which chains these replicas have.
fn chains(replicas: &BTreeMap<String, RolloutReplica>) -> Chains {
    let Some(first) = replicas.values().next() else {
        return Chains::Unknown;
    };
    if replicas.values().all(|it| it.candidate.is_none()) {
        return Chains::NoCandidate;
    }
    let pair = |it: &RolloutReplica| (it.serving.clone(), it.candidate.clone());
    let mut numbers: BTreeMap<_, usize> = BTreeMap::new();
    for replica in replicas.values() {
        *numbers.entry(pair(replica)).or_default() += 1;
    }
    let most = numbers.into_iter().max_by_key(|(_, number)| *number);
    let most = most.map_or_else(|| pair(first), |(pair, _)| pair);
    let others = replicas.iter().filter(|(_, it)| pair(it) != most);
    let others: Vec<_> = others.map(|(name, _)| name.as_str()).collect();
    match most {
        (Some(serving), Some(candidate)) if others.is_empty() => {
            Chains::Agreed { serving, candidate }
        }
        (None, _) if others.is_empty() => {
            Chains::Differ("no replica has loaded the chain of --plugins".to_owned())
        }
        _ => Chains::Differ(format!(
            "waits until all replicas have the same two chains; others than most: {}",
            few(&others)
        )),
    }
}

/// What is wrong with a spec.
fn check(spec: &ChainRolloutSpec) -> Result<(), String> {
    let span = |field: &str, text: &str| {
        let parsed = duration::parse(text);
        parsed
            .map(drop)
            .map_err(|error| format!("spec.{field} is {text:?}: {error}"))
    };
    if spec.steps.is_empty() {
        return Err("spec.steps is empty; leave it out, or give a step".to_owned());
    }
    span("limits.readyWithin", &spec.limits.ready_within)?;
    span("unjudgedAfter", &spec.unjudged_after)?;
    for (number, step) in spec.steps.iter().enumerate() {
        span(&format!("steps[{number}].duration"), &step.duration)?;
        if let Some(limits) = &step.limits {
            let field = format!("steps[{number}].limits.readyWithin");
            span(&field, &limits.ready_within)?;
        }
        let selector: Option<LabelSelector> = step.namespace_selector.clone();
        if let Some(Err(error)) = selector.map(Selector::try_from) {
            return Err(format!("spec.steps[{number}].namespaceSelector: {error}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
