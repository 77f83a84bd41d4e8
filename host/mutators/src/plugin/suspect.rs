//! What is probably a mistake in a plugin's entry and in what it asks for, though it can run.

use podloom_pod_path::UnknownField;

use super::Description;
use crate::manifest::PluginEntry;
use crate::text::one_line;

/// How many bytes of a message are shown.
const WORDS: usize = 500;
/// How many messages about one plugin are kept. Fewer are shown, and the others counted.
const MOST: usize = 1000;

/// The probable mistakes; `granted` are the unknown fields in what the manifest grants.
pub(super) fn mistakes(
    entry: &PluginEntry,
    description: &Description,
    granted: &[UnknownField],
) -> Vec<String> {
    let mut messages = entry.matches.warnings();
    let granted = granted.iter();
    messages.extend(granted.map(|unknown| message("chain.yaml grants", unknown)));
    let (reads, writes) = description.unknown_fields();
    let writes = writes.iter();
    messages.extend(writes.map(|unknown| message("it needs to write", unknown)));
    messages.extend(
        reads
            .iter()
            .map(|unknown| message("it needs to read", unknown)),
    );
    messages.truncate(MOST);
    messages
}

/// A message about an unknown field.
pub(crate) fn message(who: &str, unknown: &UnknownField) -> String {
    one_line(&format!("{who} {unknown}"), WORDS)
}
