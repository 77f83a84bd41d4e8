//! What plugins tell the user.

/// What a plugin tells the user about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub severity: Severity,
    /// One line, for people.
    pub text: String,
}

/// How much a note matters, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Somebody should act: the pod violates a rule, or did not get what it asked for.
    Warning,
    /// Good to know.
    Normal,
}

impl Note {
    /// Returns a note that somebody should act on.
    pub fn warning(text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            text: text.into(),
        }
    }

    /// Returns a note that is good to know.
    pub fn normal(text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            text: text.into(),
        }
    }
}
