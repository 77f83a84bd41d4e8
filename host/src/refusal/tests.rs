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
