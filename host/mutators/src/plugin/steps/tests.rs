use serde_json::{Value, json};

use crate::plugin::config::{ConfigError, check_schema};
use crate::plugin::expansion::ExpansionError;

/// What is found acceptable the validator must be done with: it is run on it, whatever it says.
#[track_caller]
fn check(schema: &Value, config: &Value) -> Result<(), ExpansionError> {
    super::check(schema, config)?;
    if let Err(ConfigError::Schema(error)) = check_schema(config, schema.clone()) {
        panic!("the validator refuses the schema: {error}");
    }
    Ok(())
}

fn nested(levels: usize, inner: Value) -> Value {
    (0..levels).fold(inner, |inner, _| json!({ "a": inner }))
}

#[test]
fn a_schema_that_multiplies_with_each_level_is_given_up() {
    let itself = vec![json!({ "$ref": "#" }); 300];
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let schema = json!({ "additionalProperties": { keyword: itself } });
        assert_eq!(check(&schema, &nested(1, json!(1))), Ok(()), "{keyword}");
        assert_eq!(
            check(&schema, &nested(4, json!(1))),
            Err(ExpansionError::TooSlow),
            "{keyword}"
        );
    }
    let doubled = json!({ "not": { "additionalProperties": { "$ref": "#" } } });
    assert_eq!(check(&doubled, &nested(8, json!(1))), Ok(()));
    assert_eq!(
        check(&doubled, &nested(30, json!(1))),
        Err(ExpansionError::TooSlow)
    );
}

#[test]
fn a_circle_of_references_ends() {
    let circle = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } });
    assert_eq!(check(&circle, &json!({})), Ok(()));
    assert_eq!(check(&json!({ "$ref": "#" }), &json!({})), Ok(()));
    assert_eq!(
        check(&json!({ "allOf": [{ "$ref": "#" }] }), &json!({ "a": 1 })),
        Ok(())
    );
}

#[test]
fn many_patterns_on_much_text_are_given_up() {
    let patterns = vec![json!({ "pattern": "a*b" }); 60];
    let schema = json!({ "items": { "allOf": patterns } });
    let texts = |count: usize| json!(vec!["a".repeat(6400); count]);
    assert_eq!(check(&schema, &texts(10)), Ok(()));
    assert_eq!(check(&schema, &texts(20)), Err(ExpansionError::TooSlow));
    let unique = json!({ "uniqueItems": true });
    assert_eq!(check(&unique, &json!(vec![1; 1000])), Ok(()));
    assert_eq!(
        check(&unique, &json!(vec![1; 2000])),
        Err(ExpansionError::TooSlow)
    );
}

#[test]
fn a_large_configuration_of_a_plain_schema_is_fine() {
    let schema = json!({
        "properties": { "containers": { "items": { "$ref": "#/$defs/container" } } },
        "$defs": { "container": { "properties": {
            "name": { "type": "string" },
            "env": { "items": { "required": ["name"], "additionalProperties": { "type": "string" } } },
        } } },
    });
    let env = vec![json!({ "name": "A", "value": "b" }); 1000];
    let container = json!({ "name": "app", "env": env });
    assert_eq!(
        check(&schema, &json!({ "containers": vec![container; 10] })),
        Ok(())
    );
}

#[test]
fn long_lists_in_a_schema_count_with_each_value_that_is_held_against_them() {
    let names: Vec<String> = (0..5000).map(|index| index.to_string()).collect();
    let long = "a".repeat(60_000);
    for keywords in [
        json!({ "required": names }),
        json!({ "dependentRequired": { "b": names } }),
        json!({ "dependencies": { "b": names } }),
        json!({ "enum": names }),
        json!({ "const": names }),
        json!({ "enum": [vec![0; 5000]] }),
        json!({ "allOf": [{ "const": long }, { "const": long }, { "const": long }, { "const": long }, { "const": long }] }),
    ] {
        let schema = json!({ "items": keywords });
        assert_eq!(check(&schema, &json!(vec![json!({}); 5])), Ok(()));
        assert_eq!(
            check(&schema, &json!(vec![json!({}); 50])),
            Err(ExpansionError::TooSlow),
            "{keywords}"
        );
    }
    let length = json!({ "items": { "allOf": vec![json!({ "minLength": 1 }); 60] } });
    assert_eq!(
        check(&length, &json!(vec!["a".repeat(6400); 20])),
        Err(ExpansionError::TooSlow)
    );
}
