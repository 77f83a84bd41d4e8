use super::*;

#[test]
fn certificates_live_for_two_seconds_at_least() {
    assert_eq!(lifetime("2s"), Ok(Duration::from_secs(2)));
    assert_eq!(lifetime("2160h"), Ok(Duration::from_hours(2160)));
    for short in ["0s", "1ms", "1999ms"] {
        let refused = lifetime(short).unwrap_err();
        assert_eq!(refused, "it must be at least 2s", "{short}");
    }
    assert!(lifetime("2").unwrap_err().contains("the unit is missing"));
}
