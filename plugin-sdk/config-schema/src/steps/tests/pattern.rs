use super::super::states;

#[track_caller]
fn check(pattern: &str, expected: usize) {
    assert_eq!(states(pattern), expected, "{pattern}");
}

#[test]
fn nested_repetitions_multiply_and_sequences_add_up() {
    check("abc", 3);
    check("[a-z]{4}", 5);
    check("a{10}b{20}", 32);
    check("(a{10}){20}", 231);
    check("(a?){5,}*{3}", 21);
    check("((a{10}){20}", 231);
}

#[test]
fn escaped_brackets_are_not_groups() {
    check(r"(a{10}\)[)]){20}", 273);
    check(r"[\]{4}]", 1);
    check(r"\p{L}", 1 + 2);
    check("a{x}", 1 + 2);
}
