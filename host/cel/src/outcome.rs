//! What the conditions of a list come to.

use std::collections::BTreeMap;
use std::fmt;

use crate::message::short;

/// Why a condition is neither true nor false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It does not compile.
    CompileError,
    /// Its evaluation failed, for instance at a key that is not there.
    EvaluationError,
    /// Its result is no bool.
    ResultNotBoolean,
    /// It, or all conditions together, took too many steps or too long.
    BudgetExceeded,
}

impl Reason {
    /// The reason as it is shown in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CompileError => "ConditionCompileError",
            Self::EvaluationError => "ConditionEvaluationError",
            Self::ResultNotBoolean => "ConditionResultNotBoolean",
            Self::BudgetExceeded => "ConditionBudgetExceeded",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition that is neither true nor false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The place of the condition in the list, counted from 0.
    pub index: usize,
    /// The kind of failure.
    pub reason: Reason,
    /// A sentence that names the index, in at most 256 bytes and one line.
    pub message: String,
}

impl Failure {
    /// The sentence without the index, for where that stands beside it.
    pub fn text(&self) -> &str {
        let named = format!("conditions[{}]: ", self.index);
        self.message.strip_prefix(&named).unwrap_or(&self.message)
    }

    pub(crate) fn new(index: usize, reason: Reason, message: &str) -> Self {
        Self {
            index,
            reason,
            message: at(index, message),
        }
    }
}

/// A sentence about the condition at this place.
pub(crate) fn at(index: usize, message: &str) -> String {
    short(&format_args!("conditions[{index}]: {message}"))
}

/// What one condition comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is true.
    True,
    /// It is false.
    False,
    /// It is neither.
    Error(Failure),
}

/// What all conditions of a list come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// One for each condition, in their order.
    pub outcomes: Vec<Outcome>,
    /// The steps that all of them took.
    pub steps: u64,
    /// What is to know of conditions that are true, by their places in the list: they are true of a list without an element. Each is a
    /// sentence that names the place, in at most 256 bytes and one line.
    pub remarks: BTreeMap<usize, String>,
}

/// What follows from all conditions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// All are true, or there is none.
    Met,
    /// At least one is false, and none failed.
    NotMet {
        /// The first one that is false, counted from 0.
        index: usize,
    },
    /// At least one failed; this is the first of them.
    Failed(&'a Failure),
}

impl Evaluation {
    /// The first failure, else the first condition that is false, else that all are true.
    pub fn verdict(&self) -> Verdict<'_> {
        let failure = self.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Error(failure) => Some(failure),
            Outcome::True | Outcome::False => None,
        });
        let first_false = self
            .outcomes
            .iter()
            .position(|outcome| *outcome == Outcome::False);
        match (failure, first_false) {
            (Some(failure), _) => Verdict::Failed(failure),
            (None, Some(index)) => Verdict::NotMet { index },
            (None, None) => Verdict::Met,
        }
    }
}
