use super::*;

#[track_caller]
fn check_duration(text: &str, expected: Option<&str>) {
    assert_eq!(hinted_duration(text).as_deref(), expected, "{text}");
    if let Some(expected) = expected {
        assert!(is_duration(expected), "{expected}");
    }
}

#[test]
fn what_people_write_for_a_duration_is_known() {
    check_duration("7d", Some("168h"));
    check_duration("1w2d3h", Some("219h"));
    check_duration("1 day", Some("24h"));
    check_duration("5min", Some("5m"));
    check_duration("1.5d", Some("36h"));
    check_duration("90 seconds", Some("1m30s"));
    check_duration("1d30m5s", Some("24h30m5s"));
    check_duration("d", None);
    check_duration("7 moons", None);
    check_duration("", None);
    check_duration("7", None);
    check_duration("999999999999999999w", None);
}

#[test]
fn only_a_whole_text_is_a_duration() {
    for text in ["1h", "1.5h", "-90s", "1h30m", "0", "5ms1us2ns"] {
        assert!(is_duration(text), "{text}");
    }
    for text in ["7d", "1h2d", "5min", "1h30", "h", "", "-", "1h x"] {
        assert!(!is_duration(text), "{text}");
    }
}

#[test]
fn what_people_write_for_a_timestamp_is_known() {
    for text in [
        "2026-01-15",
        "2026-01-15T00:00:00",
        "2026-01-15 00:00",
        "2026-01-15T00:00Z",
    ] {
        assert_eq!(
            hinted_timestamp(text).as_deref(),
            Some("2026-01-15T00:00:00Z"),
            "{text}"
        );
    }
    for text in ["yesterday", "", "15.01.2026", "2026-13-01"] {
        assert_eq!(hinted_timestamp(text), None, "{text}");
    }
}
