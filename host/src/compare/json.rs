//! Groups of differences for programs.

use podloom_pod_path::ChangeKind;
use serde::Serialize;
use serde_json::{Value, json};

use super::groups::{Group, Line};
use super::writers::Whose;

/// A change of one path.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Change<'l> {
    operation: &'static str,
    path: &'l str,
    plugins: &'l [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    plugins_of: Option<&'static str>,
    /// The number of different ones up to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emptied_parents: Option<usize>,
    /// Only if values are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'l Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<&'l Value>,
}

/// The pods with one difference, and what it is.
pub(crate) fn group(group: &Group) -> Value {
    let mut fields = json!(group);
    let changes: Vec<Change<'_>> = group.lines.iter().flat_map(changes).collect();
    fields["changes"] = json!(changes);
    fields
}

/// A change of each path.
fn changes(line: &Line) -> impl Iterator<Item = Change<'_>> {
    let (plugins, kept) = (&line.writers.plugins, line.kept.as_ref());
    let chain = match line.writers.chain {
        Whose::Old => "Old",
        Whose::New => "New",
    };
    line.paths().into_iter().map(move |path| Change {
        operation: operation(line.kind),
        path,
        plugins,
        plugins_of: (!plugins.is_empty()).then_some(chain),
        values: line.values(),
        emptied_parents: Some(line.parents).filter(|parents| *parents > 0),
        old: kept.and_then(|kept| kept.0.as_ref()),
        new: kept.and_then(|kept| kept.1.as_ref()),
    })
}

/// One word, for programs.
const fn operation(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "Added",
        ChangeKind::Removed => "Removed",
        ChangeKind::Changed => "Changed",
        ChangeKind::Reordered => "Reordered",
    }
}
