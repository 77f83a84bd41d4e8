//! Groups of differences for programs.

use podloom_pod_path::ChangeKind;
use serde_json::{Map, Value, json};

use super::groups::{Group, Line, Tally};
use super::writers::Whose;

/// How many pods, in how many namespaces.
pub(crate) fn tally(tally: &Tally) -> Value {
    json!({ "pods": tally.pods, "namespaces": tally.namespaces() })
}

/// The pods with one difference, and what it is.
pub(crate) fn group(group: &Group) -> Value {
    let lines = group.lines.iter().flat_map(lines);
    json!({
        "verdict": group.rank.as_str(),
        "pods": group.tally.pods,
        "namespaces": group.tally.namespaces(),
        "names": group.names,
        "plugins": group.plugins,
        "reasons": group.reasons,
        "hasMoreReasons": group.has_more_reasons,
        "changes": lines.collect::<Value>(),
        "moreChanges": group.more_lines,
    })
}

/// A change of each path. `old` and `new` are there only if values are shown; `values` counts the different ones up to 100.
fn lines(line: &Line) -> impl Iterator<Item = Value> {
    line.paths().into_iter().map(|path| {
        let chain = match line.writers.chain {
            Whose::Old => "Old",
            Whose::New => "New",
        };
        let fields = [
            ("operation", Some(json!(operation(line.kind)))),
            ("path", Some(json!(path))),
            ("plugins", Some(json!(line.writers.plugins))),
            (
                "pluginsOf",
                Some(json!(chain)).filter(|_| !line.writers.plugins.is_empty()),
            ),
            ("values", line.values().map(|count| json!(count))),
            (
                "emptiedParents",
                Some(json!(line.parents)).filter(|_| line.parents > 0),
            ),
            ("old", line.kept.as_ref().and_then(|kept| kept.0.clone())),
            ("new", line.kept.as_ref().and_then(|kept| kept.1.clone())),
        ];
        let fields = fields.into_iter();
        let present = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(present.collect::<Map<_, _>>())
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
