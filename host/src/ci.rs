//! What commands find, for programs: SARIF for code scanning, and JUnit for lists of tests.
//!
//! A command tells a [`Report`] what it looks at, and the messages that it prints for people. The two writers know no command.

mod junit;
mod sarif;

use std::collections::HashMap;
use std::sync::Arc;

use crate::cli::ReportFile;
use crate::error::{CommandError, Diagnostic, Position, Rule};
use crate::output;

/// A plugin denied a pod, or failed on it.
pub(crate) const REJECTED: Rule = Rule {
    id: "pod-rejected",
    summary: "A plugin denies the pod, or fails on it.",
};
/// A plugin said something of a pod.
pub(crate) const REMARK: Rule = Rule {
    id: "plugin-remark",
    summary: "A plugin says something about the pod.",
};
/// A plugin does what no plugin may.
pub(crate) const PLUGIN: Rule = Rule {
    id: "plugin-contract",
    summary: "A plugin or a chain is not deterministic, not idempotent, or needs more than it asks for.",
};
/// Two plugins do not commute.
pub(crate) const ORDER: Rule = Rule {
    id: "plugin-order",
    summary: "The order of two plugins matters.",
};
/// A result is not the expected one.
pub(crate) const GOLDEN: Rule = Rule {
    id: "golden-file",
    summary: "The result differs from the golden file.",
};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error,
    Warning,
    Note,
}

impl Level {
    /// Its name, as in SARIF.
    const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// All that a command looked at, and what it found there.
pub(crate) struct Report {
    /// The file of what has no place.
    file: Arc<str>,
    cases: Vec<Case>,
    /// The cases of each document.
    of_documents: HashMap<(Arc<str>, usize), Vec<usize>>,
}

/// Something that a command looked at: an object of a file, a plugin of a chain.
struct Case {
    at: Position,
    name: String,
    findings: Vec<Finding>,
}

/// A message, with the place to show it at.
struct Finding {
    level: Level,
    at: Position,
    message: Diagnostic,
}

impl Report {
    /// An empty report. What has no place is about this file: code scanning shows only what has one.
    pub(crate) fn new(file: impl Into<Arc<str>>) -> Self {
        Self {
            file: file.into(),
            cases: Vec::new(),
            of_documents: HashMap::new(),
        }
    }

    /// The file of what has no place.
    pub(crate) fn file(&self) -> Arc<str> {
        self.file.clone()
    }

    /// Adds what is looked at, whether or not something is found there. What is found at its document, and names nothing else that is
    /// there, belongs to the first.
    pub(crate) fn look_at(&mut self, at: Position, name: impl Into<String>) -> usize {
        let index = self.cases.len();
        let document = (at.file.clone(), at.document);
        self.of_documents.entry(document).or_default().push(index);
        self.cases.push(Case {
            at,
            name: name.into(),
            findings: Vec::new(),
        });
        index
    }

    /// Adds what was found.
    pub(crate) fn add(&mut self, level: Level, found: &Diagnostic) {
        let whole = || Position::of_line(self.file.clone(), 0);
        let at = found.position.clone().unwrap_or_else(whole);
        let case = match self.case_of(&at, found.object.as_deref()) {
            Some(index) => index,
            None => {
                let name = found.object.clone().unwrap_or_else(|| at.file.to_string());
                self.look_at(at.clone(), name)
            }
        };
        self.add_to(case, level, found);
    }

    /// Adds what was found in a case.
    pub(crate) fn add_to(&mut self, case: usize, level: Level, found: &Diagnostic) {
        if let Some(case) = self.cases.get_mut(case) {
            let at = found.position.as_ref().unwrap_or(&case.at).clone();
            case.findings.push(Finding {
                level,
                at,
                message: found.clone(),
            });
        }
    }

    /// The case of this name in the document, or at this line, or the first.
    fn case_of(&self, at: &Position, name: Option<&str>) -> Option<usize> {
        let all = self.of_documents.get(&(at.file.clone(), at.document))?;
        let case = |index: &&usize| self.cases.get(**index);
        let named = |it: &&usize| case(it).is_some_and(|it| Some(it.name.as_str()) == name);
        let here = |it: &&usize| at.line > 0 && case(it).is_some_and(|it| it.at.line == at.line);
        let found = all.iter().find(named);
        found
            .or_else(|| all.iter().find(here))
            .or_else(|| all.first())
            .copied()
    }

    /// Adds why the command failed, and prints the report in place of what the command prints otherwise. If the command could not do its
    /// work, there is none.
    pub(crate) fn finish(
        mut self,
        format: Option<ReportFile>,
        done: Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let Some(format) = format else {
            return done;
        };
        match &done {
            Err(CommandError::Usage(_) | CommandError::Other(_)) => return done,
            Err(CommandError::Invalid(errors) | CommandError::CheckFailed(errors)) => {
                errors.iter().for_each(|it| self.add(Level::Error, it));
            }
            Ok(()) | Err(CommandError::Reported | CommandError::Different) => {}
        }
        output::print(&match format {
            ReportFile::Sarif => sarif::text(&self.cases)?,
            ReportFile::Junit => junit::text(&self.cases)?,
        })?;
        done
    }
}

/// Prints what people read: on standard error if standard output has a report.
pub(crate) fn print(format: Option<ReportFile>, text: &str) -> Result<(), CommandError> {
    match format {
        Some(_) => output::print_note(text),
        None => output::print(text)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
