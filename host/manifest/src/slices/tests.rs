use super::{has_content, of};

#[track_caller]
fn check(text: &str, expected: &[(u64, &str)]) {
    let slices = of(text);
    let found: Vec<_> = slices
        .iter()
        .map(|slice| (slice.first_line, &text[slice.bytes.clone()]))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn documents_are_what_stands_between_separators() {
    check("", &[(1, "")]);
    check("a: 1\n", &[(1, "a: 1\n")]);
    check(
        "---\na: 1\n---\nb: 2",
        &[(1, ""), (1, "a: 1\n"), (3, "b: 2")],
    );
    check(
        "a: 1\r\n--- \r\nb: 2\r\n",
        &[(1, "a: 1\r\n"), (2, "b: 2\r\n")],
    );
    check(
        "--- {a: 1}\n--- # b\n",
        &[(1, ""), (1, "{a: 1}\n"), (2, "# b\n")],
    );
    check("a: |\n  ---\n----\n", &[(1, "a: |\n  ---\n----\n")]);
    check("\u{feff}---\na: 1\n", &[(1, "---\na: 1\n")]);
    check("\u{feff}a: 1\n---\n", &[(1, "a: 1\n"), (2, "")]);
    check("a: 1\n...\n# b\n", &[(1, "a: 1\n"), (2, "# b\n")]);
}

#[test]
fn comments_are_no_content() {
    assert!(!has_content("\n  # a\n\t\n"));
    assert!(has_content("# a\nb"));
}
