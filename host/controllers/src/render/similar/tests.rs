use super::{closest, list};

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

#[test]
fn a_long_list_is_cut_and_counted() {
    assert_eq!(list([1, 2, 3]), "1, 2, 3");
    assert_eq!(list(1..=12), "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12");
    assert_eq!(
        list(1..=20),
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 8 more"
    );
}
