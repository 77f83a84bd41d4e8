//! Values come out as they went in.

use serde_json::json;

use super::{Object, Value};
use crate::json::from_str;

#[track_caller]
fn check(text: &str) {
    let value: Value = from_str(text).unwrap();
    assert_eq!(value.to_json(), text);
    let wrapped: Vec<Value> = from_str(&format!("[ {text} , null ]")).unwrap();
    assert_eq!(wrapped, [value, Value::Null]);
}

#[test]
fn json_comes_out_as_it_went_in() {
    for text in [
        "null",
        "true",
        "false",
        "0",
        "-1.50e+3",
        "123456789012345678901234567890",
        r#""""#,
        "[]",
        "{}",
        r#"{"z":[1,{"b":null,"a":[]}],"a":{"":"x"}}"#,
    ] {
        check(text);
    }
}

#[test]
fn text_is_escaped_as_serde_json_does() {
    for text in [
        "",
        "plain",
        "\"\\/",
        "\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}",
        "größe 🦀",
    ] {
        let expected = serde_json::to_string(text).unwrap();
        assert_eq!(Value::from(text).to_json(), expected);
        check(&expected);
    }
}

#[test]
fn the_order_of_fields_does_not_matter() {
    let value = |text: &str| from_str::<Value>(text).unwrap();
    assert_eq!(
        value(r#"{"a":1,"b":[{"c":2,"d":3}]}"#),
        value(r#"{"b":[{"d":3,"c":2}],"a":1}"#)
    );
    assert_ne!(value(r#"{"a":null}"#), value(r#"{"b":null}"#));
    assert_ne!(value(r#"{"a":1}"#), value(r#"{"a":1,"b":2}"#));
    assert_ne!(value("[1,2]"), value("[2,1]"));
}

#[test]
fn what_is_missing_is_null() {
    let value: Value = from_str(r#"{"a":{"b":[1,true]},"c":null}"#).unwrap();
    assert_eq!(value.get("a").get("b").items()[0].as_i64(), Some(1));
    assert!(value.get("x").get("y").is_null());
    assert!(value.get("a").get("b").get("z").items().is_empty());
    let object = value.as_object().unwrap();
    assert!(object.has("a") && !object.has("c") && !object.has("x"));
    assert_eq!(object.text("a"), "");
}

#[test]
fn fields_are_set_where_they_are_and_new_ones_at_the_end() {
    let mut object: Object = from_str(r#"{"b":1,"a":null,"c":"x"}"#).unwrap();
    object.set("b", "one");
    object.set_if_absent("a", vec!["y"]);
    object.set_if_absent("c", "other");
    object.set("d", Object::from([("e", Value::from(-5))]));
    assert_eq!(
        object.to_json(),
        r#"{"b":"one","a":["y"],"c":"x","d":{"e":-5}}"#
    );
}

#[test]
fn an_object_is_nothing_else() {
    assert_eq!(from_str::<Object>("null").unwrap(), Object::default());
    for (text, found) in [
        ("1", "a number"),
        ("[]", "a list"),
        (r#""x""#, "a string"),
        ("true", "a boolean"),
    ] {
        let error = from_str::<Vec<Object>>(&format!("[{{}},{text}]")).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("1: expected an object, found {found}")
        );
    }
}

#[test]
fn other_readers_give_the_same() {
    let value = json!({ "a": [1, 2.5, "x", null, true], "b": {} });
    let read: Value = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(read.to_json(), value.to_string());
}
