use super::{list, sentences, shown};

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
