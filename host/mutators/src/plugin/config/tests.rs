use serde_json::{Value, json};

use super::{ConfigError, check_schema};

#[track_caller]
fn check(schema: &Value, expected: &str) {
    let error = check_schema(&json!({"mode": "of"}), schema.clone()).unwrap_err();
    assert_eq!(error, ConfigError::Rejected(vec![expected.to_owned()]));
}

#[test]
fn a_wrong_choice_is_told_the_choices() {
    let described = json!({ "properties": { "mode": { "oneOf": [
        { "const": "off", "type": "string", "description": "Does nothing." },
        { "const": "warn", "type": "string", "description": "Tells." },
        { "const": "enforce", "type": "string", "description": "Denies." },
    ] } } });
    check(
        &described,
        r#"config/mode: value must be "off", "warn" or "enforce""#,
    );
    let plain = json!({ "properties": { "mode": { "enum": ["off"] } } });
    check(&plain, r#"config/mode: value must be "off""#);
    let shapes = json!({ "properties": { "mode": { "oneOf": [{ "type": "integer" }] } } });
    check(
        &shapes,
        r#"config/mode: value is not valid under any of the schemas listed in the 'oneOf' keyword"#,
    );
}

#[test]
fn a_pattern_that_takes_much_memory_is_an_error() {
    let schema = |pattern: &str| json!({ "properties": { "mode": { "pattern": pattern } } });
    for pattern in [r"\p{L}{200}", r"(\p{L}{20}){20}", "(a{100}){1000}"] {
        let error = check_schema(&json!({}), schema(pattern)).expect_err("too large");
        assert!(matches!(error, ConfigError::Schema(_)), "{error}");
    }
    for pattern in [
        r"^[\w.-]{1,4}$",
        "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        r"^\p{L}+$",
    ] {
        assert_eq!(
            check_schema(&json!({ "mode": "of" }), schema(pattern)),
            Ok(())
        );
    }
}

#[test]
fn a_schema_that_would_take_hours_is_an_error() {
    let schema = json!({ "additionalProperties": { "allOf": vec![json!({ "$ref": "#" }); 300] } });
    let config = json!({ "a": { "a": { "a": { "a": 1 } } } });
    assert_eq!(
        check_schema(&config, schema),
        Err(ConfigError::Schema(
            "checking this configuration against it takes too many steps".to_owned()
        ))
    );
}

#[test]
fn a_schema_called_like_one_of_the_validators_own_means_itself() {
    let schema = json!({
        "$id": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/none",
        "$defs": { "none": { "additionalProperties": false } },
    });
    assert_eq!(check_schema(&json!({}), schema.clone()), Ok(()));
    let error = check_schema(&json!({ "a": 1 }), schema).expect_err("a is too much");
    assert!(matches!(error, ConfigError::Rejected(_)), "{error}");
}
