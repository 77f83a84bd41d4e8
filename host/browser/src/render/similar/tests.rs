use super::closest;

#[track_caller]
fn check(asked: &str, expected: Option<&str>) {
    let known = ["chrome", "Chromium", "firefox", "139.0", "140.0"].map(str::to_owned);
    assert_eq!(closest(asked, &known).as_deref(), expected, "{asked}");
}

#[test]
fn a_slip_is_close() {
    check("crome", Some("chrome"));
    check("chrmoe", Some("chrome"));
    check("chromum", Some("Chromium"));
    check("FIREFOX ", Some("firefox"));
}

#[test]
fn a_beginning_is_close() {
    check("139", Some("139.0"));
    check("139.0.7258.66", Some("139.0"));
    check("fire", Some("firefox"));
}

#[test]
fn another_name_is_not_close() {
    check("", None);
    check("opera", None);
    check("safari", None);
    check("90", None);
}

/// The distance of two texts costs the product of their lengths, and names come from whoever may create a Browser.
#[test]
fn long_names_are_not_compared() {
    let name = |length: usize, end: &str| format!("{}{end}", "a".repeat(length - 1));
    let known = [name(64, "b")];
    assert_eq!(closest(&name(64, "c"), &known), Some(known[0].clone()));
    assert_eq!(closest(&name(65, "c"), &known), None);
    assert_eq!(closest(&name(64, "c"), &[name(65, "b")]), None);
    // Would take hours.
    assert_eq!(closest(&name(1 << 20, "c"), &[name(1 << 20, "b")]), None);
}
