use std::time::Duration;

use super::super::settle;

#[test]
fn a_settle_time_in_which_no_answer_shows_anything_is_refused() {
    assert_eq!(settle("1s"), Ok(Duration::from_secs(1)));
    for text in ["0s", "999ms"] {
        let error = settle(text).unwrap_err();
        assert!(error.starts_with("it must be at least 1s"), "{error}");
    }
    assert!(settle("60").unwrap_err().contains("unit is missing"));
}
