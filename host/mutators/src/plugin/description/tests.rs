use super::is_version;

#[test]
fn versions_have_three_numbers() {
    let check =
        |version: &str, expected: bool| assert_eq!(is_version(version), expected, "{version}");
    check("0.1.0", true);
    check("1.22.333", true);
    check("1.0.0-rc.1", true);
    check("1.0.0+build.5", true);
    check("1.0.0-rc.1+5", true);
    check("1.0", false);
    check("v1.0.0", false);
    check("1.0.0-", false);
    check("1.0.x", false);
    check("1..0", false);
    check("", false);
    check("1.0.0-ä", false);
    check(&format!("1.0.{}", "0".repeat(64)), false);
}
