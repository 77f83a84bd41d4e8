mod numbering;

use super::nodes;
use crate::source::Source;

/// The lines of the errors, and how many documents are valid.
#[track_caller]
fn check(text: &str, lines: &[u64], valid: usize) {
    let source = Source {
        name: "-".into(),
        text: text.into(),
    };
    let mut errors = Vec::new();
    let nodes = nodes(&source, &mut errors);
    let found: Vec<u64> = errors
        .iter()
        .map(|error| error.position.as_ref().map_or(0, |at| at.line))
        .collect();
    assert_eq!(
        (found.as_slice(), nodes.len()),
        (lines, valid),
        "{errors:?}"
    );
}

#[test]
fn each_invalid_document_is_reported_and_the_others_are_read() {
    check("a: 1\n---\nb: 2\n", &[], 2);
    check("a: [1\n---\nb: 2\n---\nc: }\n---\nd: 4\n", &[1, 5], 2);
    check("a: \"1\n---\nb: 2\n", &[2], 1);
    check("---\na: 1\n--- {b\n--- {c: 3}\n", &[3], 2);
    check("ä: [\n", &[1], 0);
    check("a: 1\na: 2\n---\nb: 1\n\tc: 1\n---\nd: 1\n", &[2, 4], 1);
}

#[test]
fn reading_ends_after_twenty_errors() {
    let mut lines: Vec<u64> = (0..20).map(|number| 2 * number + 1).collect();
    lines.push(0);
    check(&"a: }\n---\n".repeat(30), &lines, 0);
}
