use super::{is_plain, joined, list, one_line};

#[track_caller]
fn check_line(text: &str, max_bytes: usize, expected: &str) {
    let line = one_line(text, max_bytes);
    assert_eq!(line, expected);
    assert!(line.len() <= max_bytes);
}

#[test]
fn a_text_becomes_one_short_line() {
    check_line("  as it is ", 20, "as it is");
    check_line(
        "two\nlines\tand \x1b[31mred",
        40,
        r"two lines and \u{1b}[31mred",
    );
    check_line("abcdefghij", 8, "abcde...");
    check_line("äöüäöü", 8, "äö...");
    check_line("exactly8", 8, "exactly8");
    check_line("", 8, "");
}

#[test]
fn names_are_joined_as_in_a_sentence() {
    let check = |items: &[&str], expected: &str| assert_eq!(list(items), expected);
    check(&[], "nothing");
    check(&["a"], "a");
    check(&["a", "b"], "a and b");
    check(&["a", "b", "c"], "a, b and c");
}

#[test]
fn invisible_characters_are_escaped() {
    for hidden in [
        '\0',
        '\u{7f}',
        '\u{85}',
        '\u{61c}',
        '\u{200b}',
        '\u{200e}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{202a}',
        '\u{202e}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{e0041}',
    ] {
        let text = format!("a{hidden}b");
        let escaped = format!("a{}b", hidden.escape_unicode());
        check_line(&text, 20, &escaped);
        assert!(!is_plain(&text) && is_plain(&escaped), "{escaped}");
    }
    check_line(&"\u{202e}".repeat(1000), 12, r"\u{202e}\...");
    assert!(is_plain("/metadata/labels/größe"));
    assert!(!is_plain("two\nlines"));
}

#[test]
fn many_names_are_counted() {
    let names: Vec<String> = (0..10_000).map(|number| format!("/a/{number}")).collect();
    let first = "/a/0, /a/1, /a/2, /a/3, /a/4, /a/5, /a/6, /a/7, /a/8, /a/9";
    assert_eq!(list(&names), format!("{first} and 9990 more"));
    assert_eq!(joined(&names, ", "), list(&names));
    assert_eq!(joined(&["a\nb", "c"], "; "), "a b; c");
    assert!(list(&["a".repeat(5000), "b".repeat(5000)]).len() < 500);
}
