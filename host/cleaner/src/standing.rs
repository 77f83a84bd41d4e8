//! What a Cleaner that deletes nothing yet waits for, as its conditions say it. Pure.

use jiff::Timestamp;
use podloom_api::names::cleaner::{condition, reason};
use podloom_cel::Failure;
use podloom_engine::conditions::{ConditionStatus, NewCondition};

use super::checked::InvalidSpec;
use super::guards::Refusal;
use super::sight::Problem;

/// What a Cleaner that deletes nothing yet waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing<'a> {
    /// For another spec, since this one cannot be used.
    Invalid(&'a InvalidSpec),
    /// For another spec, since our types cannot hold this one.
    Malformed(&'a str),
    /// For other conditions, since these do not compile.
    Uncompiled(&'a [Failure]),
    /// For its time.
    NotExpired(Timestamp),
    /// For its targets.
    Unresolved(&'a Problem),
    /// For targets or a time with which this condition can be evaluated.
    Failed(&'a Failure),
    /// For targets or a time with which this condition is true.
    Unmet(usize),
    /// For a user, since something keeps it from deleting.
    Refused(&'a Refusal),
    /// For a user, since it only shows what it would delete: this.
    DryRun(&'a str),
}

impl Standing<'_> {
    /// Returns the condition Ready.
    pub(super) fn ready(&self) -> NewCondition {
        use ConditionStatus::{False, True, Unknown};
        let (status, reason, message) = match self {
            Self::Invalid(error) => (False, reason::INVALID_SPEC, error.to_string()),
            Self::Malformed(error) => {
                let message = format!("the spec cannot be read: {error}");
                (False, reason::INVALID_SPEC, message)
            }
            Self::Uncompiled(failures) => {
                let messages: Vec<&str> =
                    failures.iter().map(|failure| &*failure.message).collect();
                let message = messages.join("; ");
                (False, reason::CONDITION_COMPILE_ERROR, message)
            }
            Self::NotExpired(expiry) => {
                let message = format!("nothing is deleted before {expiry}");
                (Unknown, reason::NOT_EXPIRED, message)
            }
            Self::Unresolved(problem) => (False, reason::TARGET_RESOLVE_ERROR, problem.to_string()),
            Self::Failed(failure) => (False, failure.reason.as_str(), failure.message.clone()),
            Self::Unmet(index) => {
                let message = format!("conditions[{index}] is false");
                (True, reason::WAITING_FOR_CONDITIONS, message)
            }
            Self::Refused(refusal) => (False, refusal.reason, refusal.message.clone()),
            Self::DryRun(message) => (True, reason::DRY_RUN, (*message).to_owned()),
        };
        NewCondition::new(condition::READY, status, reason, message)
    }

    /// Returns the condition `ConditionsMet`.
    pub(super) fn conditions_met(&self) -> NewCondition {
        let (status, reason, message) = match self {
            Self::Unmet(index) => (
                ConditionStatus::False,
                reason::NOT_ALL_TRUE,
                format!("conditions[{index}] is false"),
            ),
            Self::Refused(_) | Self::DryRun(_) => return all_true(),
            _ => (
                ConditionStatus::Unknown,
                reason::NOT_EVALUATED,
                "the conditions have no result".to_owned(),
            ),
        };
        NewCondition::new(condition::CONDITIONS_MET, status, reason, message)
    }
}

/// Returns the condition `ConditionsMet` of a Cleaner whose conditions are all true.
pub(super) fn all_true() -> NewCondition {
    NewCondition::new(
        condition::CONDITIONS_MET,
        ConditionStatus::True,
        reason::ALL_TRUE,
        "all conditions are true",
    )
}
