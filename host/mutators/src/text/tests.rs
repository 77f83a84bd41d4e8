use super::{list, one_line};

#[track_caller]
fn check_line(text: &str, max_bytes: usize, expected: &str) {
    let line = one_line(text, max_bytes);
    assert_eq!(line, expected);
    assert!(line.len() <= max_bytes);
}

#[test]
fn a_text_becomes_one_short_line() {
    check_line("  as it is ", 20, "as it is");
    check_line("two\nlines\tand \x1b[31mred", 40, "two lines and  [31mred");
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
