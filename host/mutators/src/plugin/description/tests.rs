use super::{Description, is_version};
use crate::contract;

#[track_caller]
fn check_needs(reads: &[&str], writes: &[&str], expected: Option<&str>) {
    let owned = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect();
    let said = contract::Description {
        name: "fixture".to_owned(),
        version: "1.0.0".to_owned(),
        summary: String::new(),
        config_schema: String::new(),
        reads: owned(reads),
        writes: owned(writes),
    };
    assert_eq!(Description::check(said).err().as_deref(), expected);
}

#[test]
fn needed_paths_have_a_limit_on_all_segments() {
    let deep = format!("/spec{}", "/a".repeat(31));
    let (fits, too_many) = (vec![deep.as_str(); 64], vec![deep.as_str(); 65]);
    check_needs(&fits, &fits, None);
    check_needs(
        &fits,
        &too_many,
        Some("the paths that it needs have more than 4096 segments in total"),
    );
}

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
