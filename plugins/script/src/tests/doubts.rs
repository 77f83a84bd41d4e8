//! What is told of programs that can run.

use crate::Program;
use crate::doubts;

fn doubts(program: &str) -> Vec<String> {
    doubts::of(&Program::parse(program).unwrap())
}

#[test]
fn a_program_without_a_statement_does_nothing() {
    // A folded block scalar makes one line, and so one comment, of this.
    for program in [
        "// Only small pods. if pod.get(\"/spec/hostPID\") == true { deny(\"no\"); }",
        " ",
        ";",
        "fn check(pod) { deny(\"never called\"); }",
    ] {
        let found = doubts(program);
        assert!(
            found.len() == 1 && found[0].contains("no statement"),
            "{program}: {found:?}"
        );
        assert!(found[0].contains("program: |"), "{found:?}");
    }
}

#[test]
fn a_comparison_that_is_never_true_is_told() {
    for (program, words) in [
        ("if 600 > \"30\" { }", "`>` compares a number with a text"),
        (
            "if quantity(pod.get(\"/a\")) > \"4Gi\" { }",
            "a quantity with a text",
        ),
        (
            "let x = pod.get(\"/a\"); if x > \"4Gi\" { }",
            "\"4Gi\" letter by letter",
        ),
        (
            "let x = pod.get(\"/a\"); if \"30\" <= x { }",
            "\"30\" letter by letter",
        ),
        (
            "if pod.keys(\"/a\").len() == \"3\" { }",
            "a number with a text",
        ),
        (
            "const MOST = \"4\"; let f = |n| n; if MOST > 5 { }",
            "a text with a number",
        ),
        ("if true == \"true\" { }", "a bool with a text"),
        ("if 1 < () { }", "an absent value"),
        (
            "if 5 in [\"5\", \"6\"] { }",
            "`in` compares a number with a text",
        ),
        (
            "if pod.get(\"/a\") == (1 > 2) && 1 == \"1\" { }",
            "a number with a text",
        ),
        (
            "fn f(a) { a.filter(|x| 1 > \"2\") } f([]);",
            "a number with a text",
        ),
        (
            "if pod.get(\"/a\") > quantity(\"4GB\") { }",
            "quantity(\"4GB\") is no quantity",
        ),
    ] {
        let found = doubts(program);
        assert_eq!(found.len(), 1, "{program}: {found:?}");
        assert!(
            found[0].contains(words) && found[0].starts_with("line 1, "),
            "{found:?}"
        );
    }
    for program in [
        "if pod.get(\"/a\") == \"4Gi\" && pod.get(\"/b\") > \"v1\" { }",
        "if quantity(\"4Gi\") > 5 && 1 < 2.5 && () != 5 && \"a\" < \"b\" { }",
        "if pod.get(\"/a\") in [\"a\", 5] && 5 in [\"a\", 5] { }",
        "const X = 5; for X in [\"a\"] { if X == \"a\" { } }",
        "fn quantity(x) { x } if quantity(\"a\") == \"a\" { }",
    ] {
        assert_eq!(doubts(program), [""; 0], "{program}");
    }
}

#[test]
fn a_place_that_denies_is_named_as_the_log_names_it() {
    let program = "let a = pod.get(\"/spec/containers\");\nif a == () { deny(\"none\"); }\na.some(|c| { if c.name == \"proxy\" { deny(c.name); } false });";
    let places = doubts::denials(&Program::parse(program).unwrap());
    assert_eq!(places.len(), 2, "{places:?}");
    let run = super::run(program);
    assert_eq!(run.logs.last().unwrap().1, places[1]);
    assert!(places[1].contains("line 3"), "{places:?}");
}
