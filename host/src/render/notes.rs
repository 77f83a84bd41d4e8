//! What plugins say about pods, for those who do not ask for `--explain`.

use std::collections::BTreeMap;

use podloom_mutation::Severity;
use podloom_mutation::remarks_of;

use super::{Settled, title};
use crate::error::Diagnostic;
use crate::explain;

/// How many different remarks of one severity are shown.
const SHOWN: usize = 50;

/// The remarks of one severity about all pods. Pods with the same remark share a message, at the place of the first.
pub(super) fn of(outcomes: &[Settled<'_>], severity: Severity, namespace: &str) -> Vec<Diagnostic> {
    let mut indices = BTreeMap::new();
    let mut found: Vec<(Diagnostic, usize)> = Vec::new();
    for outcome in outcomes {
        for pass in &outcome.passes {
            for remark in remarks_of(&pass.runs, severity) {
                let index = *indices.entry(remark.clone()).or_insert(found.len());
                if let Some((_, others)) = found.get_mut(index) {
                    *others += 1;
                    continue;
                }
                let first = Diagnostic {
                    position: Some(outcome.document.position(&[])),
                    object: Some(title(outcome.document, pass, namespace)),
                    field: None,
                    message: remark,
                };
                found.push((first, 0));
            }
        }
    }
    let left_out = found.len().saturating_sub(SHOWN);
    let mut messages: Vec<Diagnostic> = found.into_iter().take(SHOWN).map(shared).collect();
    if left_out > 0 {
        let more = format!("{left_out} more remarks of plugins; --explain shows all");
        messages.push(Diagnostic::new(more));
    }
    messages
}

/// A message that so many other pods have, too.
fn shared((mut first, others): (Diagnostic, usize)) -> Diagnostic {
    let others = match others {
        0 => return first,
        more => format!(" and {}", explain::count(more, "more pod")),
    };
    first.object = first.object.map(|object| object + &others);
    first
}
