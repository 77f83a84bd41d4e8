use super::{Diagnostic, Position};

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
