//! Whether each BrowserConfig serves all that it defines, as data for its `Accepted` condition.

use std::collections::BTreeMap;
use std::fmt;

use podloom_api::names;

use super::check::{case_twins, problems};
use super::merge::merge;
use super::resolve::{ConfigRef, Entry, Pair, by_age, entries};
use super::similar;

/// What is to say of one BrowserConfig.
#[derive(Clone, Debug)]
pub struct Acceptance<'a> {
    /// The BrowserConfig.
    pub config: ConfigRef<'a>,
    /// What no pod could be made of.
    pub problems: Vec<Problem<'a>>,
    /// What an older BrowserConfig serves already.
    pub duplicates: Vec<Duplicate<'a>>,
}

/// What is wrong, and with which versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem<'a> {
    /// The versions that are not served because of it.
    pub pairs: Vec<Pair<'a>>,
    /// A sentence that says what to change.
    pub text: String,
}

/// A version that an older BrowserConfig defines too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate<'a> {
    /// The version that is defined twice.
    pub pair: Pair<'a>,
    /// The name of the BrowserConfig that serves it.
    pub served_by: &'a str,
}

/// Tells of each BrowserConfig of one namespace whether it serves all that it defines, the oldest first.
pub fn accept<'a>(configs: &[ConfigRef<'a>]) -> Vec<Acceptance<'a>> {
    let mut served: BTreeMap<Pair<'a>, &'a str> = BTreeMap::new();
    by_age(configs)
        .into_iter()
        .map(|config| {
            let mut acceptance = Acceptance {
                config,
                problems: Vec::new(),
                duplicates: Vec::new(),
            };
            for entry in entries(config) {
                acceptance.note_problems(&entry);
                let served_by = *served.entry(entry.pair).or_insert(config.name());
                if served_by != config.name() {
                    acceptance.duplicates.push(Duplicate {
                        pair: entry.pair,
                        served_by,
                    });
                }
            }
            acceptance
        })
        .collect()
}

impl<'a> Acceptance<'a> {
    /// Returns whether the BrowserConfig serves all that it defines.
    pub fn is_accepted(&self) -> bool {
        self.problems.is_empty() && self.duplicates.is_empty()
    }

    /// Returns the condition's reason; what is invalid is told before what is there twice.
    pub fn reason(&self) -> &'static str {
        if !self.problems.is_empty() {
            names::reason::INVALID_TEMPLATE
        } else if !self.duplicates.is_empty() {
            names::reason::DUPLICATE_BROWSER
        } else {
            names::reason::VALID
        }
    }

    /// Returns the condition's message: all that is wrong, or how much is served.
    pub fn message(&self) -> String {
        let wrong: Vec<String> = self
            .problems
            .iter()
            .map(ToString::to_string)
            .chain(self.duplicates.iter().map(ToString::to_string))
            .collect();
        if !wrong.is_empty() {
            return wrong.join("; ");
        }
        let versions: usize = self.config.spec.browsers.values().map(BTreeMap::len).sum();
        match versions {
            1 => "serves 1 version".to_owned(),
            _ => format!("serves {versions} versions"),
        }
    }

    /// A problem of the template is one problem of many versions.
    fn note_problems(&mut self, entry: &Entry<'a>) {
        let template = entry.config.spec.template.as_ref();
        let effective = merge(template, entry.version);
        let texts = problems(template, entry.version, &effective)
            .into_iter()
            .chain(case_twins(entry.config.spec, entry.pair));
        for text in texts {
            match self.problems.iter_mut().find(|known| known.text == text) {
                Some(known) => known.pairs.push(entry.pair),
                None => self.problems.push(Problem {
                    pairs: vec![entry.pair],
                    text,
                }),
            }
        }
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", similar::list(&self.pairs), self.text)
    }
}

impl fmt::Display for Duplicate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is served by the older BrowserConfig {}",
            self.pair, self.served_by
        )
    }
}

#[cfg(test)]
mod tests;
