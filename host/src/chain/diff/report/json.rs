//! The report for programs.

use serde_json::{Value, json};

use super::Report;
use crate::compare::json::{group, tally};

pub(super) fn of(report: &Report<'_>) -> Value {
    let groups = report.groups;
    let skipped = report.skipped.iter();
    let skipped = skipped.map(|it| json!({ "what": it.what, "why": it.why }));
    json!({
        "compared": tally(&groups.all),
        "same": tally(&groups.same),
        "groups": groups.sorted().into_iter().map(group).collect::<Value>(),
        "notListed": tally(&groups.rest),
        "skipped": skipped.collect::<Value>(),
    })
}
