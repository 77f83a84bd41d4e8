//! The text is the one that `serde_json` writes.

use serde_json::{Value, json};

#[track_caller]
fn check(value: &Value) {
    assert_eq!(super::json(value), value.to_string());
}

#[test]
fn values_are_written_as_serde_json_writes_them() {
    check(&json!(null));
    check(&json!([true, false, 0, -1, u64::MAX, i64::MIN, 1.5, 1e300]));
    check(&json!({}));
    check(&json!([[], {}, [{}], {"a": []}]));
    check(&json!({"name": "app", "env": [{"name": "TZ", "value": ""}], "none": null}));
}

#[test]
fn strings_and_keys_are_escaped() {
    for text in [
        "", "a\"b", "\\", "\n", "a\u{1f}", "\u{7f}", "\u{2028}", "ümläut", "🦀", "/",
    ] {
        check(&json!(text));
        check(&json!({ text: text }));
        // Among many letters, which are looked at together.
        let long = "x".repeat(40);
        check(&json!(format!("{long}{text}")));
        check(&json!(format!("{text}{long}")));
    }
}
