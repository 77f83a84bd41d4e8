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

/// Returns the first limit that is reached.
pub(crate) fn judge(limits: &RolloutLimits, evidence: &Evidence) -> Option<Verdict> {
    let RolloutCounts {
        serving,
        candidate,
        tried,
    } = evidence.counts;
    let (old, new) = (evidence.lives.serving, evidence.lives.candidate);
    let of_reviews = |some: fn(&PassedPods) -> i64| {
        let new = Share {
            some: some(&candidate).saturating_add(some(&tried)),
            of: candidate.pods.saturating_add(tried.pods),
        };
        let old = Share {
            some: some(&serving),
            of: serving.pods,
        };
        (new, old)
    };
    let share = |some, of| Share { some, of };
    let rules = [
        (
            reason::DENIED,
            "were denied",
            of_reviews(|it| it.denied),
            limits.denied,
        ),
        (
            reason::FAILED,
            "had a plugin that failed",
            of_reviews(|it| it.failed),
            limits.failed,
        ),
        (
            reason::UNREADY,
            "did not become Ready",
            (
                share(new.unready, new.decided()),
                share(old.unready, old.decided()),
            ),
            limits.unready,
        ),
        (
            reason::RESTARTED,
            "had a container that restarted",
            (
                share(new.restarted, new.lived()),
                share(old.restarted, old.lived()),
            ),
            limits.restarted,
        ),
    ];
    let mut rules = rules.into_iter();
    let reached = rules.find_map(|(reason, what, (new, old), limit)| {
        exceeds(new, old, limit).then(|| Verdict {
            reason,
            message: sentence(what, new, old, limit),
        })
    });
    reached.or_else(|| slow(limits, &serving, &candidate))
}

fn sentence(what: &str, new: Share, old: Share, limit: ShareLimit) -> String {
    format!(
        "{} of {} pods {what} with the candidate, and {} of {} with the serving chain; the limit is {} pods and {} percent more",
        new.some, new.of, old.some, old.of, limit.pods, limit.percent
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
