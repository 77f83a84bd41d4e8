//! Whether a limit is reached. Pure.

use podloom_api::names::rollout::reason;
use podloom_api::{PassedPods, RolloutCounts, RolloutLimits, ShareLimit};

use crate::tally::Lives;

/// What is known of both chains since the rollout began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// What the replicas counted.
    pub(crate) counts: RolloutCounts,
    /// What became of the pods.
    pub(crate) lives: Lives,
}

/// Why a candidate is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// In one word.
    pub(crate) reason: &'static str,
    /// In a sentence.
    pub(crate) message: String,
}

/// So many of so many pods.
#[derive(Clone, Copy)]
struct Share {
    some: i64,
    of: i64,
}

/// What is limited: what pods are, how many with the candidate and with the serving chain, and how many may be.
struct Rule {
    reason: &'static str,
    are: &'static str,
    new: Share,
    old: Share,
    limit: ShareLimit,
}

/// Returns the first limit that is reached.
pub(crate) fn judge(limits: &RolloutLimits, evidence: &Evidence) -> Option<Verdict> {
    let mut rules = of_reviews(limits, evidence)
        .into_iter()
        .chain(of_lives(limits, evidence));
    let reached = rules.find(|rule| exceeds(rule.new, rule.old, rule.limit));
    let verdict = reached.map(|rule| Verdict {
        reason: rule.reason,
        message: sentence(&rule),
    });
    let RolloutCounts {
        serving, candidate, ..
    } = evidence.counts;
    verdict.or_else(|| slow(limits, &serving, &candidate))
}

fn of_reviews(limits: &RolloutLimits, evidence: &Evidence) -> [Rule; 4] {
    let RolloutCounts {
        serving,
        candidate,
        tried,
    } = evidence.counts;
    let share = |some, of| Share { some, of };
    let passed = |reason, are, new, old, limit| Rule {
        reason,
        are,
        new: share(new, candidate.pods),
        old: share(old, serving.pods),
        limit,
    };
    // That only the candidate does it is known of each of them: there is nothing to compare with, and each counts twice.
    let alone = |reason, are, new: i64, limit| Rule {
        reason,
        are,
        new: share(2 * new, 2 * tried.pods),
        old: share(0, 0),
        limit,
    };
    let (denied, failed) = (reason::DENIED, reason::FAILED);
    [
        passed(
            denied,
            "denied",
            candidate.denied,
            serving.denied,
            limits.denied,
        ),
        passed(
            failed,
            "with a plugin that failed",
            candidate.failed,
            serving.failed,
            limits.failed,
        ),
        alone(
            denied,
            "denied by it alone, each counted twice",
            tried.denied,
            limits.denied,
        ),
        alone(
            failed,
            "with a plugin that failed in it alone, each counted twice",
            tried.failed,
            limits.failed,
        ),
    ]
}

fn of_lives(limits: &RolloutLimits, evidence: &Evidence) -> [Rule; 2] {
    let (old, new) = (evidence.lives.serving, evidence.lives.candidate);
    let share = |some, of| Share { some, of };
    [
        Rule {
            reason: reason::UNREADY,
            are: "not Ready in time, or failed",
            new: share(new.unready, new.pods),
            old: share(old.unready, old.pods),
            limit: limits.unready,
        },
        Rule {
            reason: reason::RESTARTED,
            are: "with a container that restarted",
            new: share(new.restarted, new.pods),
            old: share(old.restarted, old.pods),
            limit: limits.restarted,
        },
    ]
}

fn sentence(rule: &Rule) -> String {
    let Rule {
        are,
        new,
        old,
        limit,
        ..
    } = rule;
    format!(
        "of {} pods with the candidate, {} were {are}; of {} with the serving chain, {}; the limit is {}, and {} percent more",
        new.of, new.some, old.of, old.some, limit.pods, limit.percent
    )
}

/// Whether there are enough of them, and their share is larger than that of the others by more than the limit.
fn exceeds(new: Share, old: Share, limit: ShareLimit) -> bool {
    let (some, of) = (i128::from(new.some), i128::from(new.of.max(1)));
    // Of no pods, none were bad.
    let (old_some, old_of) = match old.of {
        ..=0 => (0, 1),
        of => (i128::from(old.some), i128::from(of)),
    };
    let more = 100 * (some * old_of - old_some * of);
    new.some >= i64::from(limit.pods) && more > i128::from(limit.percent) * of * old_of
}

/// The mean time of a pod in microseconds; none without pods.
pub(crate) fn mean(pods: &PassedPods) -> Option<i64> {
    pods.microseconds.checked_div(pods.pods)
}

fn slow(limits: &RolloutLimits, old: &PassedPods, new: &PassedPods) -> Option<Verdict> {
    let (old, took) = (mean(old)?, mean(new)?);
    let limit = limits.slow;
    let is_enough = new.pods >= i64::from(limit.pods);
    let is_relative = i128::from(took) * 100 > i128::from(old) * i128::from(limit.percent);
    let is_absolute = took - old > i64::from(limit.milliseconds) * 1000;
    (is_enough && is_relative && is_absolute).then(|| Verdict {
        reason: reason::SLOW,
        message: format!(
            "a pod takes {} ms in the candidate on average, and {} ms in the serving chain; the limit is {} percent and {} ms more",
            milliseconds(took), milliseconds(old), limit.percent, limit.milliseconds
        ),
    })
}

/// With two digits after the point.
fn milliseconds(microseconds: i64) -> String {
    format!("{}.{:02}", microseconds / 1000, microseconds % 1000 / 10)
}

#[cfg(test)]
mod tests;
