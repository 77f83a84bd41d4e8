use serde_json::{Value, json};

use super::super::{of_json, sha256};

#[test]
fn hashes_are_those_of_other_programs() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(sha256(b""), empty);
    // printf '{"a":1,"b":[true]}' | sha256sum
    let known = sha256(br#"{"a":1,"b":[true]}"#);
    assert_eq!(of_json(&json!({ "b": [true], "a": 1 })), known);
}

#[test]
fn the_order_of_fields_does_not_matter() {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let one = value(r#"{ "a": { "x": 1, "y": 2 }, "b": null }"#);
    let other = value(r#"{"b":null,"a":{"y":2,"x":1}}"#);
    assert_eq!(of_json(&one), of_json(&other));
}
