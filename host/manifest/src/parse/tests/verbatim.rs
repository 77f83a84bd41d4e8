use crate::parse::parse;
use crate::source::Source;

#[track_caller]
fn check(text: &str, expected: &[Option<&str>]) {
    let source = Source {
        name: "-".into(),
        text: text.into(),
    };
    let documents = parse(&source).checked().unwrap();
    let found: Vec<_> = documents
        .iter()
        .map(|document| document.as_written())
        .collect();
    let found: Vec<_> = found.iter().map(Option::as_deref).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_document_keeps_its_comments_order_and_scalars() {
    let first = "kind: A # a\n# b\napiVersion: v1\ndata: {c: no, d: 0644}\n\n";
    let second = "# c\napiVersion: v1\nkind: B\nx: |+\n  y\n\n";
    check(
        &format!("{first}---\n{second}"),
        &[Some(first), Some(second)],
    );
}

/// For kubectl the second half of each comment is a line of its own.
#[test]
fn a_document_that_kubectl_reads_differently_is_reformatted() {
    for end in ['\u{85}', '\u{2028}', '\u{2029}'] {
        let hidden = format!("apiVersion: v1\nkind: ConfigMap\n# harmless {end}kind: Pod\n");
        check(&hidden, &[None]);
        check(
            &format!("# {end}kind: Pod\n---\napiVersion: v1\nkind: ConfigMap\n"),
            &[None],
        );
    }
}

#[test]
fn comments_above_the_first_separator_are_kept() {
    check(
        "# licence\n---\n# empty\n---\napiVersion: v1\nkind: A",
        &[Some("# licence\n# empty\napiVersion: v1\nkind: A\n")],
    );
    check(
        "--- # here\napiVersion: v1\nkind: A\n",
        &[Some("# here\napiVersion: v1\nkind: A\n")],
    );
}

#[test]
fn json_and_items_of_lists_are_reformatted() {
    check(r#"{"apiVersion": "v1", "kind": "A"}"#, &[None]);
    check(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n---\n{apiVersion: v1, kind: B}\n",
        &[None, Some("{apiVersion: v1, kind: B}\n")],
    );
}

/// Without its directive the text would mean something else, or nothing.
#[test]
fn text_that_depends_on_what_stands_before_it_is_reformatted() {
    check(
        "%TAG !! tag:example.com,2026:\n---\napiVersion: v1\nkind: A\nx: !!int \"1\"\n",
        &[None],
    );
}
