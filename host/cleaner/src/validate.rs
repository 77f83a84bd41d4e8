//! What is wrong with a Cleaner before it is stored, and what its author should know: pure, for the admission webhook and the command
//! line.
//!
//! Conditions are compiled elsewhere, since that needs a thread of its own; [`conditions`] says what came of it.

use std::sync::Arc;

use podloom_api::{CleanerSpec, duration};
use podloom_cel::{Evaluator, Failure, Tenant};
use podloom_engine::finding::{FieldPath, Finding, Findings, Subject};

use crate::checked::{Checked, Selection};
use crate::settings::CleanerSettings;

/// The field of a mistake that depends on the operator's flags, which whoever checks may not know.
const NAMESPACE: &str = "metadata.namespace";

/// Checks the spec of a Cleaner in a namespace, all but its conditions.
///
/// What makes it `InvalidSpec` is refused; a namespace that is excluded is only a warning, since the operator may have other flags.
pub fn spec(spec: &CleanerSpec, namespace: &str, settings: &CleanerSettings) -> Findings {
    let mut findings = match Checked::of(spec, namespace, settings) {
        Ok(checked) => Findings {
            refusals: Vec::new(),
            warnings: unmatchable(&checked),
        },
        Err(problems) => {
            let excluded = FieldPath::dotted(NAMESPACE);
            let (warnings, refusals) = problems.into_iter().partition(|it| it.path == excluded);
            Findings { refusals, warnings }
        }
    };
    findings.warnings.extend(without_retry(spec));
    findings
}

/// Returns the conditions that are worth compiling, with their places: not those beyond the most that a spec may have.
pub(super) fn compilable(spec: &CleanerSpec) -> impl Iterator<Item = (usize, &String)> {
    let conditions = spec.conditions.iter().take(super::checked::CONDITIONS_MAX);
    conditions.enumerate()
}

/// Returns the names that conditions know, besides the time.
pub fn variable_names(spec: &CleanerSpec) -> Vec<String> {
    let evaluated = spec.targets.iter().filter(|it| it.include_when_evaluating);
    evaluated.map(|target| target.name.clone()).collect()
}

/// Says what is wrong with conditions that do not compile.
pub fn conditions<'a>(failures: impl IntoIterator<Item = &'a Failure>) -> Vec<Finding> {
    let failures = failures.into_iter();
    failures
        .map(|failure| uncompiled(failure.index, failure.text()))
        .collect()
}

/// Says what is wrong with the condition at this place.
pub(super) fn uncompiled(index: usize, text: &str) -> Finding {
    let path = FieldPath::dotted("spec.conditions").index(index);
    Finding::at(path, &text, Subject::Problem)
}

/// Refuses only for what is new: what is stored already is a warning.
#[must_use]
pub fn since(new: Findings, old: &Findings) -> Findings {
    let (known, refusals): (Vec<Finding>, Vec<Finding>) = new
        .refusals
        .into_iter()
        .partition(|it| old.refusals.contains(it));
    let mut warnings = known;
    warnings.extend(new.warnings);
    Findings { refusals, warnings }
}

/// Warns of selectors that match nothing: the API server would refuse each look at such a target.
fn unmatchable(checked: &Checked) -> Vec<Finding> {
    let targets = checked.targets.iter().enumerate();
    targets
        .filter_map(|(index, target)| match &target.selection {
            Selection::Labelled(Err(error)) => {
                let path = FieldPath::dotted("spec.targets").index(index);
                let text = format!("target {} matches no object: {error}", target.name);
                Some(Finding::at(path.key("reference"), &text, Subject::Problem))
            }
            Selection::Labelled(Ok(_)) | Selection::One(_) => None,
        })
        .collect()
}

/// Warns of a period that nobody has chosen.
fn without_retry(spec: &CleanerSpec) -> Option<Finding> {
    let is_chosen = spec.retry.is_some() || spec.conditions.is_empty();
    let period = spec.retry_period().ok().filter(|_| !is_chosen)?;
    let text = format!(
        "it is missing, so the conditions are evaluated every {}, and when a target changes; write the period that you want",
        duration::print(period)
    );
    Some(Finding::at(
        FieldPath::dotted("spec.retry"),
        &text,
        Subject::Problem,
    ))
}

/// Checks Cleaners for the admission webhook, beside its other tasks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CleanerValidator {
    settings: Arc<CleanerSettings>,
    evaluator: Evaluator,
}

impl CleanerValidator {
    /// Returns one that compiles on at most so many threads at the same time for one namespace, on as many more for others, and on one for
    /// another peer.
    #[must_use]
    pub fn new(settings: CleanerSettings, threads: usize) -> Self {
        Self {
            settings: Arc::new(settings),
            evaluator: Evaluator::new(threads),
        }
    }

    /// Checks a spec that a peer sent for a namespace; with a stored one, only what is new is refused.
    ///
    /// Whoever stops waiting stops the work after the condition that is being compiled.
    pub async fn check(
        &self,
        new: &CleanerSpec,
        old: Option<&CleanerSpec>,
        tenant: Tenant<'_>,
    ) -> Findings {
        let findings = self.findings(new, tenant).await;
        match old {
            // Most updates have nothing to refuse, and need no comparison.
            Some(old) if !findings.refusals.is_empty() => {
                since(findings, &self.findings(old, tenant).await)
            }
            _ => findings,
        }
    }

    async fn findings(&self, spec: &CleanerSpec, tenant: Tenant<'_>) -> Findings {
        let mut findings = self::spec(spec, tenant.1, &self.settings);
        let names = variable_names(spec);
        for (index, condition) in compilable(spec) {
            // One at a time: each takes below a second, and thirty-two of them may take longer than anybody waits.
            let compiled = self
                .evaluator
                .compile_all(tenant, vec![condition.clone()], names.clone())
                .await;
            let failures = compiled.err().unwrap_or_default();
            let failures = failures.iter();
            let found = failures.map(|failure| uncompiled(index, failure.text()));
            findings.refusals.extend(found);
        }
        findings
    }
}

#[cfg(test)]
mod tests;
