use serde_json::{Value, json};

use super::{Problem, check as check_schema};

#[track_caller]
fn check(schema: &Value, expected: &str) {
    check_config(&json!({"mode": "of"}), schema, &[expected]);
}

#[track_caller]
fn check_config(config: &Value, schema: &Value, expected: &[&str]) {
    let Err(Problem::Rejected { complaints, more }) = check_schema(config, schema) else {
        panic!("{config} is accepted");
    };
    let complaints: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    assert_eq!(
        (complaints, more),
        (expected.iter().map(|&text| text.to_owned()).collect(), 0)
    );
}

#[test]
fn the_error_for_a_wrong_choice_lists_the_choices() {
    let described = json!({ "properties": { "mode": { "oneOf": [
        { "const": "off", "type": "string", "description": "Does nothing." },
        { "const": "warn", "type": "string", "description": "Warns." },
        { "const": "enforce", "type": "string", "description": "Denies." },
    ] } } });
    check(
        &described,
        r#"config/mode: value must be "off", "warn" or "enforce", found "of""#,
    );
    let plain = json!({ "properties": { "mode": { "enum": ["off"] } } });
    check(&plain, r#"config/mode: value must be "off", found "of""#);
    let shapes = json!({ "properties": { "mode": { "oneOf": [{ "type": "integer" }] } } });
    check(&shapes, "config/mode: expected an integer, found a string");
}

#[test]
fn complaints_name_the_nearest_field_and_what_was_found() {
    let variable = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 3 },
            "port": { "type": "integer", "maximum": 9 },
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    // Through a reference, which is replaced by its target.
    let schema = json!({
        "properties": { "variables": { "items": { "$ref": "#/$defs/Variable" } } },
        "$defs": { "Variable": variable },
    });
    let check = |variable: Value, expected: &[&str]| {
        check_config(&json!({ "variables": [variable] }), &schema, expected);
    };
    check(
        json!({ "name": "a", "prot": 1, "zone": 2 }),
        &[
            "config/variables/0: unknown field prot; did you mean port?; unknown field zone; the fields are name, port",
        ],
    );
    check(
        json!({}),
        &["config/variables/0: the field name is missing"],
    );
    check(
        json!({ "name": "a", "port": 11 }),
        &["config/variables/0/port: value is greater than the maximum of 9, found 11"],
    );
    check(
        json!({ "name": true, "port": "8" }),
        &[
            "config/variables/0/name: expected a string, found true",
            "config/variables/0/port: expected an integer, found a string",
        ],
    );
    // A string may be secret.
    check(
        json!({ "name": "secret" }),
        &["config/variables/0/name: value is longer than 3 characters"],
    );
}

#[test]
fn a_value_that_fits_no_variant_is_compared_with_the_one_that_was_meant() {
    let tagged = |kind: &str, field: &str| {
        json!({
            "type": "object",
            "properties": { "kind": { "const": kind }, field: { "type": "integer" } },
            "required": ["kind", field],
            "additionalProperties": false,
        })
    };
    let schema = json!({ "properties": { "rule": { "anyOf": [
        { "oneOf": [tagged("limit", "most"), tagged("floor", "least"), tagged("none", "nothing")] },
        { "type": "null" },
    ] } } });
    let check =
        |rule: Value, expected: &[&str]| check_config(&json!({ "rule": rule }), &schema, expected);
    check(
        json!({ "kind": "floor", "least": "1" }),
        &["config/rule/least: expected an integer, found a string"],
    );
    check(
        json!({ "kind": "floor", "lest": 1 }),
        &[
            "config/rule: the field least is missing",
            "config/rule: unknown field lest; did you mean least?",
        ],
    );
    check(
        json!({ "kind": "flor", "least": 1 }),
        &[
            r#"config/rule/kind: value must be "limit", "floor" or "none", found "flor"; did you mean "floor"?"#,
        ],
    );
}

/// As serde writes variants by default.
#[test]
fn a_value_that_fits_no_variant_without_a_tag_is_compared_with_the_nearest() {
    let named = |field: &str| {
        json!({
            "type": "object",
            "properties": { field: { "type": "object", "required": ["name"] } },
            "required": [field],
            "additionalProperties": false,
        })
    };
    let schema = json!({ "properties": { "from": { "oneOf": [named("secret"), named("file")] } } });
    check_config(
        &json!({ "from": { "file": {} } }),
        &schema,
        &["config/from/file: the field name is missing"],
    );
    // All variants lack as much; the misspelt field is one of the second.
    let schema = json!({ "properties": { "from": { "oneOf": [named("file"), named("env"), named("secret")] } } });
    check_config(
        &json!({ "from": { "evn": {} } }),
        &schema,
        &[
            "config/from: unknown field evn; did you mean env?",
            "config/from: the field env is missing",
        ],
    );
    // Words, or an object.
    let schema = json!({ "properties": { "from": { "oneOf": [
        { "type": "string", "const": "first" },
        { "type": "string", "const": "last" },
        named("after"),
    ] } } });
    check_config(
        &json!({ "from": "lats" }),
        &schema,
        &[r#"config/from: value must be "first" or "last", found "lats"; did you mean "last"?"#],
    );
    let schema = json!({ "properties": { "port": { "anyOf": [{ "type": "integer" }, { "type": "string", "maxLength": 2 }] } } });
    check_config(
        &json!({ "port": "http" }),
        &schema,
        &["config/port: value is longer than 2 characters"],
    );
}

#[test]
fn at_most_twenty_complaints_are_told() {
    let schema = json!({ "items": { "type": "string" } });
    let Err(Problem::Rejected { complaints, more }) = check_schema(&json!(vec![1; 25]), &schema)
    else {
        panic!("no item is a string");
    };
    assert_eq!((complaints.len(), more), (20, 5));
}

#[test]
fn a_pattern_that_takes_much_memory_is_an_error() {
    let schema = |pattern: &str| json!({ "properties": { "mode": { "pattern": pattern } } });
    for pattern in [r"\p{L}{200}", r"(\p{L}{20}){20}", "(a{100}){1000}"] {
        let error = check_schema(&json!({}), &schema(pattern)).expect_err("too large");
        assert!(matches!(error, Problem::Schema(_)), "{error}");
    }
    for pattern in [
        r"^[\w.-]{1,4}$",
        "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        r"^\p{L}+$",
    ] {
        assert_eq!(
            check_schema(&json!({ "mode": "of" }), &schema(pattern)),
            Ok(())
        );
    }
}

#[test]
fn a_configuration_that_would_take_hours_is_an_error() {
    let schema = json!({ "items": { "items": { "uniqueItems": true } } });
    let config = json!([[vec![json!([1]); 3000]]]);
    assert_eq!(check_schema(&config, &schema), Err(Problem::TooLarge));
}

#[test]
fn an_invalid_configuration_is_refused_even_if_all_errors_would_take_too_much_memory() {
    let schema = json!({ "anyOf": vec![json!({ "required": ["a"] }); 3000] });
    let config = json!({ "big": vec![1; 20_000] });
    let error = check_schema(&config, &schema).expect_err("there is no a");
    let Problem::Rejected { complaints, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    let fits = json!({ "a": 1, "big": vec![1; 20_000] });
    assert_eq!(check_schema(&fits, &schema), Ok(()));
}

#[test]
fn an_invalid_schema_is_an_error() {
    for schema in [
        json!(5),
        json!({ "properties": [] }),
        json!({ "properties": { "$id": "urn:it" } }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema", "items": { "type": 5 } }),
        json!({ "$schema": "https://json-schema.org/draft/2019-09/schema", "required": [1] }),
    ] {
        let error = check_schema(&json!({}), &schema).expect_err("no schema");
        assert!(matches!(error, Problem::Schema(_)), "{error}");
    }
}

/// Schemas as deep as they may be, nested by each keyword.
#[test]
fn the_deepest_schema_fits_a_small_stack() {
    let within = |keyword: &str, inner: Value| match keyword {
        "allOf" | "anyOf" | "oneOf" => json!({ keyword: [inner, true] }),
        "properties" | "dependentSchemas" => json!({ keyword: { "a": inner } }),
        "patternProperties" => json!({ keyword: { "^[ab]": inner } }),
        "then" => json!({ "if": true, "then": inner }),
        _ => json!({ keyword: inner }),
    };
    let lists = (0..63).fold(json!(1), |inner, _| json!([inner]));
    let objects = (0..63).fold(json!(1), |inner, _| json!({ "a": inner }));
    let small = std::thread::Builder::new().stack_size(2 << 20);
    let thread = small.spawn(move || {
        for keyword in [
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "then",
            "items",
            "contains",
            "additionalProperties",
            "properties",
            "patternProperties",
            "dependentSchemas",
        ] {
            let schema = (0..63).fold(json!({ "minimum": 2 }), |inner, _| within(keyword, inner));
            for config in [&json!(1), &lists, &objects] {
                let checked = check_schema(config, &schema);
                assert!(
                    !matches!(checked, Err(Problem::Schema(_))),
                    "{keyword}: {checked:?}"
                );
            }
            let deeper = within(keyword, schema);
            let checked = check_schema(&objects, &deeper);
            assert!(
                matches!(checked, Err(Problem::Schema(_))),
                "{keyword}: {checked:?}"
            );
        }
    });
    thread.expect("it starts").join().expect("all fit");
}

#[test]
fn a_schema_with_the_id_of_a_meta_schema_refers_to_itself() {
    let schema = json!({
        "$id": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/none",
        "$defs": { "none": { "additionalProperties": false } },
    });
    assert_eq!(check_schema(&json!({}), &schema), Ok(()));
    let error = check_schema(&json!({ "a": 1 }), &schema).expect_err("a is too much");
    assert!(matches!(error, Problem::Rejected { .. }), "{error}");
}
