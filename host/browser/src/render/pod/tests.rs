use super::hostname;

#[track_caller]
fn check(name: &str, expected: &str) {
    assert_eq!(hostname(name), expected);
}

#[test]
fn host_names_are_one_valid_label() {
    check(
        "d568aeff-a91a-449b-834b-d79bf2d6d623",
        "d568aeff-a91a-449b-834b-d79bf2d6d623",
    );
    check("session.1", "session-1");
    check(&"a".repeat(80), &"a".repeat(63));
    check(&format!("{}-b", "a".repeat(62)), &"a".repeat(62));
    check(&format!("{}..b", "a".repeat(61)), &"a".repeat(61));
}
