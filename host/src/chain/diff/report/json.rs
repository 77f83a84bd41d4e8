//! The report for programs.

use serde_json::{Value, json};

use super::Report;
use crate::compare::json::group;

pub(super) fn of(report: &Report<'_>) -> Value {
    let groups = report.groups;
    json!({
        "compared": groups.all,
        "same": groups.same,
        "groups": groups.sorted().into_iter().map(group).collect::<Value>(),
        "notListed": groups.rest,
        "skipped": report.skipped,
    })
}
