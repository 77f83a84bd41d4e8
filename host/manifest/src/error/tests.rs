use super::{Diagnostic, Position, cut, quoted};

#[track_caller]
fn check(diagnostic: &Diagnostic, expected: &str) {
    assert_eq!(diagnostic.to_string(), expected);
}

fn position(line: u64) -> Position {
    Position {
        file: "shop.yaml".into(),
        document: 2,
        line,
        column: 5,
    }
}

#[test]
fn a_message_names_all_that_is_known() {
    let mut diagnostic = Diagnostic::at(position(12), "is a number");
    check(&diagnostic, "shop.yaml:12:5: document 2: is a number");
    diagnostic.object = Some("Browser shop/chrome".to_owned());
    check(
        &diagnostic,
        "shop.yaml:12:5: document 2, Browser shop/chrome: is a number",
    );
    diagnostic.field = Some("spec.browserVersion".to_owned());
    check(
        &diagnostic,
        "shop.yaml:12:5: document 2, Browser shop/chrome, spec.browserVersion: is a number",
    );
    check(
        &Diagnostic::at(position(0), "is empty"),
        "shop.yaml: document 2: is empty",
    );
    check(
        &Diagnostic::new("no objects\nat all\n"),
        "no objects\n    at all",
    );
}

#[test]
fn control_characters_of_a_file_are_escaped() {
    let mut diagnostic = Diagnostic::at(position(1), "has the key \u{1b}[2J\nsecond line");
    diagnostic.object = Some("Pod \u{1b}[31mred\u{9b}0m".to_owned());
    check(
        &diagnostic,
        "shop.yaml:1:5: document 2, Pod \\u{1b}[31mred\\u{9b}0m: has the key \\u{1b}[2J\n    second line",
    );
}

/// Each value is cut, and what is said about it is not.
#[test]
fn values_from_outside_are_cut() {
    let long = "n".repeat(80_000);
    let mut diagnostic = Diagnostic::at(position(1), format!("{long} is no name; write {long}"));
    diagnostic.object = Some(format!("Pod shop/{long}"));
    diagnostic.field = Some(format!("metadata.labels.{long}"));
    let text = diagnostic.to_string();
    assert!(text.len() < 2000, "{} bytes", text.len());
    assert!(text.contains("n… is no name; write n"), "{text}");
    let spaced = "n ".repeat(40_000);
    assert!(cut(&spaced).len() < 21_000);
    assert_eq!(quoted(&spaced).chars().count(), 323);
    // A name of the greatest length and its namespace are shown whole.
    let name = format!("Pod/{}", "n".repeat(253));
    assert_eq!(cut(&name), name);
}
