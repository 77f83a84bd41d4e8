use super::{closest, list, sentences, shown};

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

#[test]
fn what_is_long_is_cut() {
    assert_eq!(shown(&"ü".repeat(64)).to_string(), "ü".repeat(64));
    assert_eq!(
        shown(&"ü".repeat(65)).to_string(),
        format!("{}…", "ü".repeat(64))
    );
    assert_eq!(list(["a".repeat(65)]), format!("{}…", "a".repeat(64)));
    let long = sentences(vec!["a".repeat(1000); 1000]);
    assert_eq!(
        long.chars().count(),
        12 * 513 + 11 * 2 + " and 988 more".len()
    );
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

#[test]
fn words_of_tenants_stay_in_their_line() {
    let word = "a\nb\u{202e}c\u{200b}\"\\";
    let line = r#"a\nb\u{202e}c\u{200b}"\"#;
    assert_eq!(shown(word).to_string(), line);
    assert_eq!(list([word, "d"]), format!("{line}, d"));
    assert_eq!(sentences([line]), line, "nothing is escaped twice");
    assert_eq!(
        format!("{:?}", shown(word)),
        r#""a\nb\u{202e}c\u{200b}\"\\""#
    );
}
