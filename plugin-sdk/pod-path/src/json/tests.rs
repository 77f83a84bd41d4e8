//! The text is the one that `serde_json` writes.

mod cost;

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
fn what_is_read_has_no_null_fields() {
    let value = json!({
        "a": null,
        "b": { "c": null },
        "d": [null, { "e": null, "f": [], "g": 1 }],
        "h": "x",
        "i": null,
    });
    let read = super::json_as_read(&value);
    assert_eq!(read, r#"{"b":{},"d":[null,{"f":[],"g":1}],"h":"x"}"#);
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(super::json_as_read(&read), read.to_string());
    assert!(super::is_read_alike(&value, &read) && super::is_read_alike(&read, &value));
}

#[test]
fn values_that_differ_are_not_read_alike() {
    let value = json!({ "a": [1, null], "b": null });
    for other in [
        json!({ "a": [1] }),
        json!({ "a": [1, 2] }),
        json!({ "a": [1, null], "b": 0 }),
        json!({ "a": [1, null], "c": 0 }),
        json!({ "a": null }),
        json!([]),
        json!(null),
    ] {
        assert!(!super::is_read_alike(&value, &other), "{other}");
        assert!(!super::is_read_alike(&other, &value), "{other}");
    }
}

#[test]
fn each_byte_is_escaped_as_serde_json_does_wherever_it_stands() {
    for byte in 0..=0x7f_u8 {
        for before in 0..17 {
            let text = format!("{}{}äx", "y".repeat(before), char::from(byte));
            check(&json!(text));
        }
    }
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
