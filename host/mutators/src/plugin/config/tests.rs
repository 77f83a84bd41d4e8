use serde_json::{Value, json};

use super::{ConfigError, check_schema};

#[track_caller]
fn check(schema: &Value, expected: &str) {
    let error = check_schema(&json!({"mode": "of"}), schema).unwrap_err();
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
