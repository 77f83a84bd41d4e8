use super::super::ClientVersion;

#[track_caller]
fn check(text: &str, expected: Option<ClientVersion>) {
    let version: Option<ClientVersion> = text.parse().ok();
    assert_eq!(version, expected, "{text}");
    if let Some(version) = version {
        assert_eq!(version.to_string(), text);
    }
}

#[test]
fn a_version_has_three_numbers() {
    check("2.4.3", Some(ClientVersion::of(2, 4, 3)));
    check("0.0.0", Some(ClientVersion::of(0, 0, 0)));
    check("20261123.0.10", Some(ClientVersion::of(20_261_123, 0, 10)));
    for text in [
        "",
        "2",
        "2.4",
        "2.4.3.1",
        "v2.4.3",
        "2.4.3-rc1",
        "2.4.03",
        "2.+4.3",
        "2..3",
        "latest",
    ] {
        check(text, None);
    }
    check(&format!("2.4.{}", "9".repeat(28)), None);
}

#[test]
fn versions_are_compared_as_numbers() {
    let version = |text: &str| text.parse::<ClientVersion>().unwrap();
    assert!(version("2.0.9") < ClientVersion::OLDEST);
    assert!(version("2.1.2") < ClientVersion::WITH_METRICS);
    assert!(version("2.10.0") > ClientVersion::WITH_METRICS);
    assert!(version("10.0.0") > version("9.9.9"));
}
