use crate::template::is_named;

#[track_caller]
fn check(text: &str, expected: Option<bool>) {
    assert_eq!(is_named(text, "podloom-1"), expected);
}

#[test]
fn only_the_name_in_the_metadata_counts() {
    check("metadata:\n  infra_name: podloom-1\n", Some(true));
    check("metadata: { infra_name: podloom-12 }", Some(false));
    check("{}", Some(false));
    // A text inside of somebody else's template.
    check(
        "metadata: {}\nnote: |\n  metadata:\n    infra_name: podloom-1\n",
        Some(false),
    );
}

/// It may be ours, so nothing else is created.
#[test]
fn a_text_that_cannot_be_read_may_have_the_name() {
    check("a: [podloom-1", None);
    check("a: [", Some(false));
}
