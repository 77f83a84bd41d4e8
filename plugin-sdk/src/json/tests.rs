//! The reader agrees with `serde_json` where both accept a text, and says where and why where it does not.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::from_str;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    ratio: Option<f64>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    key: String,
    #[serde(default)]
    mode: Mode,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
enum Mode {
    #[default]
    Keep,
    Replace(String),
    Rename {
        to: String,
    },
    Pair(u8, u8),
}

#[track_caller]
fn check<T: DeserializeOwned + PartialEq + Debug>(text: &str) {
    let expected: T = serde_json::from_str(text).unwrap();
    assert_eq!(from_str::<T>(text), Ok(expected));
}

#[test]
fn reads_what_serde_json_reads() {
    check::<Config>(r#"{}"#);
    check::<Config>(" { \"rules\" : [ ] ,\n\t\"limit\" : null } ");
    check::<Config>(
        r#"{"rules":[{"key":"a"},{"key":"b","mode":"Keep"}],"limit":7,"ratio":-1.5e3}"#,
    );
    check::<Config>(r#"{"ratio":2}"#);
    check::<Mode>(r#"{"Replace":"x"}"#);
    check::<Mode>(r#"{"Rename":{"to":"x"}}"#);
    check::<Mode>(r#"{"Pair":[1,2]}"#);
    check::<(bool, (), char)>(r#"[true,null,"x"]"#);
    check::<BTreeMap<String, String>>(r#"{"a":"1","b":""}"#);
    check::<Vec<i64>>("[0,-1,9223372036854775807,-9223372036854775808]");
    check::<u64>("18446744073709551615");
}

#[test]
fn reads_any_text() {
    for text in [
        "",
        "plain",
        "\"\\/",
        "\n\r\t\u{8}\u{c}\u{1f}",
        "größe",
        "🦀 and 🧶",
        "\u{ffff}",
    ] {
        check::<String>(&serde_json::to_string(text).unwrap());
    }
    check::<String>(r#""\ud83e\udd80 \u00e4\/""#);
}

#[test]
fn reads_values_of_any_kind() {
    check::<Value>(
        r#"{"a":[1,-2,18446744073709551615,1.25,"x",true,false,null,{}],"b":{"c":[[]]}}"#,
    );
}

#[test]
fn passes_over_fields_that_the_type_does_not_have() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Only {
        b: u8,
    }
    for value in [
        "1",
        "-1.5e3",
        "true",
        "null",
        "\"\"",
        "\"\\\\\"",
        "\"}],\\\"\"",
        "[]",
        "{}",
        "[[{}],\"]\"]",
        "{\"x\":{}}",
    ] {
        check::<Only>(&format!(r#"{{"a":{value},"b":1}}"#));
        check::<Only>(&format!(r#"{{ "a" : {value} , "b" : 1 , "c" : {value} }}"#));
    }
    check::<Only>(r#"{"a":{"x":[1,{"y":"]}"},null,true,false,-1.5]},"b":1,"c":[]}"#);
}

#[track_caller]
fn check_error<T: DeserializeOwned + Debug>(text: &str, expected: &str) {
    assert_eq!(from_str::<T>(text).unwrap_err().to_string(), expected);
}

#[test]
fn errors_name_the_field_and_what_to_write() {
    check_error::<Config>(
        r#"{"rules":[{"key":"a"},{"key":"b","mode":"Drop"}]}"#,
        "rules/1/mode: unknown value Drop, known: Keep, Replace, Rename, Pair",
    );
    check_error::<Config>(
        r#"{"limit":1,"rule":[]}"#,
        "unknown field rule, known: rules, limit, ratio",
    );
    check_error::<Config>(
        r#"{"rules":[{"mode":"Keep"}]}"#,
        "rules/0: field key is missing",
    );
    check_error::<Config>(
        r#"{"limit":"7"}"#,
        "limit: expected a number, found a string",
    );
    check_error::<Config>(r#"{"limit":-7}"#, "limit: expected u32, found a number");
    check_error::<Config>(r#"{"limit":1.5}"#, "limit: expected u32, found a number");
    check_error::<Config>(r#"{"rules":{}}"#, "rules: expected a list, found an object");
    check_error::<Config>(r#"[]"#, "expected an object, found a list");
    check_error::<BTreeMap<String, bool>>(
        r#"{"example.com/a":1}"#,
        "example.com~1a: expected a boolean, found a number",
    );
    check_error::<Config>(r#"{"limit":1,"limit":2}"#, "field limit is given twice");
    check_error::<Mode>(r#""Replace""#, "expected an object of one field");
}

#[test]
fn null_is_nothing() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct All {
        text: String,
        list: Vec<u8>,
        inner: Inner,
        map: BTreeMap<String, u8>,
        flag: bool,
        number: i64,
        float: f64,
        option: Option<Inner>,
    }
    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner {
        value: Option<u8>,
    }
    let text = r#"{"text":null,"list":null,"inner":null,"map":null,"flag":null,"number":null,"float":null,"option":null}"#;
    let nothing = All {
        text: String::new(),
        list: Vec::new(),
        inner: Inner::default(),
        map: BTreeMap::new(),
        flag: false,
        number: 0,
        float: 0.0,
        option: None,
    };
    assert_eq!(from_str(text), Ok(nothing));
    let elements = from_str::<Vec<Inner>>(r#"[null,{"value":1},null]"#).unwrap();
    assert_eq!(elements[1].value, Some(1));
    assert_eq!(elements.len(), 3);
    check_error::<Vec<Rule>>("[{\"key\":\"a\"},null]", "1: field key is missing");
}

#[test]
fn what_is_no_json_is_refused() {
    for text in [
        "",
        "{",
        "[1,]",
        "[1 2]",
        r#"{"a":1,}"#,
        r#"{"a" 1}"#,
        r#"{1:2}"#,
        "tru",
        "\"open",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"line\nbreak\"",
        "1 2",
        "--1",
        "nulll",
    ] {
        assert!(from_str::<Value>(text).is_err(), "{text}");
    }
}

#[test]
fn deep_nesting_ends_before_the_stack_does() {
    let text = "[".repeat(100_000);
    assert!(from_str::<Value>(&text).is_err());
    assert!(from_str::<serde::de::IgnoredAny>(&text).is_err());
}
