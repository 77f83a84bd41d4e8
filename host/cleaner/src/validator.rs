//! Checks Cleaners for the admission webhook, beside its other tasks.

use std::sync::Arc;

use podloom_api::CleanerSpec;
use podloom_cel::{Evaluator, Tenant};
use podloom_engine::finding::Findings;

use super::settings::CleanerSettings;
use super::validate;

/// Checks Cleaners. Cheap to clone.
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
                validate::since(findings, &self.findings(old, tenant).await)
            }
            _ => findings,
        }
    }

    async fn findings(&self, spec: &CleanerSpec, tenant: Tenant<'_>) -> Findings {
        let mut findings = validate::spec(spec, tenant.1, &self.settings);
        let names = validate::variable_names(spec);
        for (index, condition) in validate::compilable(spec) {
            // One at a time: each takes below a second, and thirty-two of them may take longer than anybody waits.
            let compiled = self
                .evaluator
                .compile_all(tenant, vec![condition.clone()], names.clone())
                .await;
            let failures = compiled.err().unwrap_or_default();
            let failures = failures.iter();
            let found = failures.map(|failure| validate::uncompiled(index, failure.text()));
            findings.refusals.extend(found);
        }
        findings
    }
}
