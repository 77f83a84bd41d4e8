//! What is wrong with a Browser or a BrowserConfig before it is stored, and what its author should know: pure, for the admission
//! webhook and the command line.
//!
//! What the schemas of the CRDs say is not repeated here. An update is never refused for what it does not change: a problem that the
//! stored object has too becomes a warning, so that users can still fix one problem of many, remove a finalizer or delete the object.

mod dry;

use std::collections::{BTreeMap, BTreeSet};

use podloom_api::{BrowserConfigObject, BrowserObject, BrowserSpec, names};

use super::render::{
    Acceptance, ConfigRef, FOUND_MAX, Pair, Problem, accept_one, check_options, resolve,
    unknown_options,
};
use crate::render::{Missing, OptionsError, RenderError, ResolveError, list};
pub use dry::{Before, DRY_PODS, DryPod, DryPods, Version};
pub use podloom_engine::finding::{FieldPath, Finding, Findings, Step, Subject};

/// How many refusals name a field, and how many warnings; the rest is counted.
const REFUSALS: usize = 12;
const WARNINGS: usize = 5;

/// Checks a Browser, given the BrowserConfigs of its namespace in any order; none if they are not known.
///
/// It is refused only for options that no BrowserConfig can make valid. What is not found may be created a moment later.
pub fn browser(
    new: &BrowserObject,
    old: Option<&BrowserObject>,
    configs: Option<&[ConfigRef<'_>]>,
) -> Findings {
    let Some(old) = old else {
        return of_browser(new, configs);
    };
    let pod = |browser: &BrowserObject| browser.status.as_ref().and_then(|it| it.pod_uid.clone());
    if new.metadata.deletion_timestamp.is_some() || pod(new).is_some() || is_same(new, old) {
        return Findings::default();
    }
    // Its spec cannot change, so only metadata does.
    of_browser(new, configs).tolerated()
}

/// Whether a Browser still asks for the same.
fn is_same(new: &BrowserObject, old: &BrowserObject) -> bool {
    let asked = |browser: &BrowserObject| {
        let metadata = browser.metadata.clone();
        (metadata.labels, metadata.annotations)
    };
    new.spec == old.spec && asked(new) == asked(old)
}

fn of_browser(browser: &BrowserObject, configs: Option<&[ConfigRef<'_>]>) -> Findings {
    let wrong = |resolved| {
        let error = check_options(&browser.metadata, resolved).err();
        error.map(|error| Finding::from(&error))
    };
    let refusals: Vec<Finding> = wrong(None).into_iter().collect();
    let mut warnings = ignored_options(browser);
    match configs.map(|configs| resolve(configs, &browser.spec)) {
        Some(Err(error)) => warnings.push(brief(&error)),
        // Another BrowserConfig may allow it.
        Some(Ok(resolved)) if refusals.is_empty() => warnings.extend(wrong(Some(&resolved))),
        _ => {}
    }
    Findings { refusals, warnings }
}

/// What is ignored in the options of a Browser, which may be slips.
pub fn ignored_options(browser: &BrowserObject) -> Vec<Finding> {
    let unknown = unknown_options(&browser.metadata).into_iter();
    let at = || FieldPath::of(OPTIONS);
    at_most(
        WARNINGS,
        unknown.map(|it| Finding::at(at(), &it, Subject::Options)),
    )
}

/// Checks a BrowserConfig, given those of its namespace in any order.
///
/// It is refused for versions from which no pod can be made. Versions that an older BrowserConfig serves are only warned of: they
/// serve once that one is gone.
pub fn browser_config(
    new: &BrowserConfigObject,
    old: Option<&BrowserConfigObject>,
    beside: &[ConfigRef<'_>],
) -> Findings {
    let is_unchanged = old.is_some_and(|old| old.spec == new.spec);
    if new.metadata.deletion_timestamp.is_some() || is_unchanged {
        return Findings::default();
    }
    let config = ConfigRef::from(new);
    let others: Vec<ConfigRef<'_>> = beside
        .iter()
        .copied()
        .filter(|other| other.name() != config.name())
        .collect();
    let acceptance = accept_one(config, &others);
    let old = old.filter(|_| !acceptance.problems.is_empty());
    let old = old.map(|old| accept_one(ConfigRef::from(old), &[]));
    of_config(&acceptance, stored(old.as_ref()).as_ref())
}

/// What is to say about a BrowserConfig that was checked beside all others, and is new.
pub fn accepted(acceptance: &Acceptance<'_>) -> Findings {
    of_config(acceptance, Some(&Stored::new()))
}

fn of_config(acceptance: &Acceptance<'_>, stored: Option<&Stored<'_>>) -> Findings {
    let had = |pair: Pair<'_>, text: &str| {
        stored.is_none_or(|stored| stored.get(text).is_some_and(|pairs| pairs.contains(&pair)))
    };
    let mut findings = Findings::default();
    for Problem { pairs, text } in &acceptance.problems {
        let subject = || Subject::Problem;
        if pairs.is_empty() {
            let finding = about(&[], text, subject());
            match stored {
                None => findings.warnings.push(finding),
                Some(_) => findings.refusals.push(finding),
            }
            continue;
        }
        let (known, new): (Vec<Pair<'_>>, Vec<Pair<'_>>) =
            pairs.iter().partition(|pair| had(**pair, text));
        let found = |pairs: &[Pair<'_>]| (!pairs.is_empty()).then(|| about(pairs, text, subject()));
        findings.refusals.extend(found(&new));
        findings.warnings.extend(found(&known));
    }
    let tolerated = std::mem::take(&mut findings.warnings);
    let duplicates = acceptance.duplicates.iter().map(|duplicate| {
        about(
            &[duplicate.pair],
            &duplicate.to_string(),
            Subject::Duplicate,
        )
    });
    findings.refusals = at_most(REFUSALS, findings.refusals.into_iter());
    findings.warnings = at_most(WARNINGS, tolerated.into_iter());
    findings.warnings.extend(at_most(WARNINGS, duplicates));
    findings
}

/// Keeps the first findings, and counts the others.
fn at_most(most: usize, mut findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = findings.by_ref().take(most).collect();
    let subject = kept.last().map(|finding| finding.subject);
    if let (count @ 1.., Some(subject)) = (findings.count(), subject) {
        kept.push(more(count, subject));
    }
    kept
}

/// What was wrong with the object before its update, by text.
type Stored<'a> = BTreeMap<&'a str, BTreeSet<Pair<'a>>>;

/// Returns what was wrong with the object before its update, if there was one. None if not all of it was examined, so that everything
/// may have been wrong.
fn stored<'a>(acceptance: Option<&'a Acceptance<'a>>) -> Option<Stored<'a>> {
    let mut found = Stored::new();
    let mut by_version: BTreeMap<Pair<'_>, usize> = BTreeMap::new();
    let problems = acceptance.map_or(&[][..], |acceptance| &acceptance.problems);
    for Problem { pairs, text } in problems {
        found.entry(text).or_default().extend(pairs);
        for pair in pairs {
            *by_version.entry(*pair).or_default() += 1;
        }
    }
    let is_full = |count: usize| count >= FOUND_MAX;
    let is_unexamined = found.values().any(BTreeSet::is_empty)
        || is_full(problems.len())
        || by_version.into_values().any(is_full);
    (!is_unexamined).then_some(found)
}

/// The spec of a Browser that asks for a version.
fn asking_for(pair: Pair<'_>) -> BrowserSpec {
    BrowserSpec {
        browser_name: pair.browser.to_owned(),
        browser_version: pair.version.to_owned(),
    }
}

// What is wrong with a Browser or a BrowserConfig, as findings.

/// A finding about some versions of a BrowserConfig; about the whole if there are none.
pub fn about(pairs: &[Pair<'_>], text: &str, subject: Subject) -> Finding {
    let text = match (pairs, subject) {
        (&[] | &[_], _) | (_, Subject::Duplicate) => text.to_owned(),
        (several, _) => format!("{}: {text}", list(several)),
    };
    Finding {
        path: path(pairs),
        text,
        subject,
    }
}

/// A finding that counts those that are not shown.
fn more(count: usize, subject: Subject) -> Finding {
    let text = match subject {
        Subject::Duplicate => format!("and {count} more are served by older BrowserConfigs"),
        Subject::Options => format!("and {count} more are ignored"),
        _ => format!("and {count} more problems"),
    };
    let path: &[&str] = match subject {
        Subject::Options => &OPTIONS,
        _ => &["spec", "browsers"],
    };
    Finding {
        path: FieldPath::of(path.iter().copied()),
        text,
        subject,
    }
}

/// Why a Browser has no configuration, in one line.
fn brief(error: &ResolveError) -> Finding {
    let finding = Finding::from(error);
    match error {
        ResolveError::NotFound(missing) => Finding {
            text: missing.brief(),
            ..finding
        },
        ResolveError::Invalid { .. } => finding,
    }
}

/// The field that has the options.
const OPTIONS: [&str; 3] = ["metadata", "annotations", names::annotation::OPTIONS];

/// The part of the path that all of these versions have in common.
fn path(pairs: &[Pair<'_>]) -> FieldPath {
    let Some((first, others)) = pairs.split_first() else {
        return FieldPath::of(["spec"]);
    };
    let mut path = vec!["spec", "browsers"];
    if others.iter().all(|other| other.browser == first.browser) {
        path.push(first.browser);
        if others.is_empty() {
            path.push(first.version);
        }
    }
    FieldPath::of(path)
}

impl From<&ResolveError> for Finding {
    fn from(error: &ResolveError) -> Self {
        let path = match error {
            ResolveError::NotFound(Missing::Configs) | ResolveError::Invalid { .. } => {
                FieldPath::default()
            }
            ResolveError::NotFound(Missing::Name { field, .. }) => FieldPath::of(["spec", *field]),
        };
        Self::at(path, error, Subject::Configuration)
    }
}

impl From<&OptionsError> for Finding {
    fn from(error: &OptionsError) -> Self {
        let path = match error.copied {
            Some(field) => FieldPath::of(["metadata", field]),
            None => FieldPath::of(OPTIONS),
        };
        Self::at(path, error, Subject::Options)
    }
}

impl From<&RenderError> for Finding {
    fn from(error: &RenderError) -> Self {
        match error {
            RenderError::Options(error) => Self::from(error),
            RenderError::Unnamed => Self::at(FieldPath::default(), error, Subject::Name),
        }
    }
}

#[cfg(test)]
mod tests;
