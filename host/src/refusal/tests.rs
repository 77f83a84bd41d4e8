use super::{Place, Refusal};

#[track_caller]
fn check(refusal: &Refusal, expected: &str) {
    assert_eq!(refusal.to_string(), expected);
}

fn place(line: u64) -> Place {
    Place {
        file: "shop.yaml".into(),
        document: 2,
        line,
        column: 5,
    }
}

#[test]
fn says_as_much_as_is_known() {
    let mut refusal = Refusal::at(place(12), "is a number");
    check(&refusal, "shop.yaml:12:5: document 2: is a number");
    refusal.object = Some("Browser shop/chrome".to_owned());
    check(
        &refusal,
        "shop.yaml:12:5: document 2, Browser shop/chrome: is a number",
    );
    refusal.field = Some("spec.browserVersion".to_owned());
    check(
        &refusal,
        "shop.yaml:12:5: document 2, Browser shop/chrome, spec.browserVersion: is a number",
    );
    check(
        &Refusal::at(place(0), "is empty"),
        "shop.yaml: document 2: is empty",
    );
    check(
        &Refusal::of_input("no objects\nat all\n"),
        "no objects\n    at all",
    );
}

#[test]
fn a_file_cannot_speak_to_the_terminal() {
    let mut refusal = Refusal::at(place(1), "has the key \u{1b}[2J\nsecond line");
    refusal.object = Some("Pod \u{1b}[31mred\u{9b}0m".to_owned());
    check(
        &refusal,
        "shop.yaml:1:5: document 2, Pod \\u{1b}[31mred\\u{9b}0m: has the key \\u{1b}[2J\n    second line",
    );
}
