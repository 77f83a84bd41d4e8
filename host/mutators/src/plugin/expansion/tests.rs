use serde_json::{Map, Value, json};

use super::ExpansionError;
use crate::plugin::config::{ConfigError, check_schema};

/// What is found acceptable the validator must be done with: it is run on it, whatever it says.
#[track_caller]
fn check(schema: &Value) -> Result<(), ExpansionError> {
    super::check(schema)?;
    let config = json!({ "a": { "a": "a" }, "child": { "child": {} } });
    if let Err(ConfigError::Schema(error)) = check_schema(&config, schema.clone()) {
        panic!("the validator refuses the schema: {error}");
    }
    Ok(())
}

/// Definitions that each refer `times` times to the one before.
fn ladder(definitions: usize, times: usize) -> Value {
    let mut defs = Map::from_iter([("a0".to_owned(), json!({ "type": "object" }))]);
    for index in 1..definitions {
        let reference = json!({ "$ref": format!("#/$defs/a{}", index - 1) });
        defs.insert(
            format!("a{index}"),
            json!({ "allOf": vec![reference; times] }),
        );
    }
    json!({ "$defs": defs, "$ref": format!("#/$defs/a{}", definitions - 1) })
}

#[test]
fn references_cannot_blow_a_schema_up() {
    assert_eq!(check(&ladder(10, 2)), Ok(()));
    assert_eq!(check(&ladder(40, 2)), Err(ExpansionError::TooLarge));
    assert_eq!(check(&ladder(60, 1)), Ok(()));
    assert_eq!(check(&ladder(5000, 1)), Err(ExpansionError::TooDeep));
}

#[test]
fn references_to_themselves_are_fine() {
    let tree = json!({ "$ref": "#/$defs/node", "$defs": { "node": { "properties": { "child": { "$ref": "#/$defs/node" } } } } });
    assert_eq!(check(&tree), Ok(()));
    assert_eq!(check(&json!({ "$ref": "#" })), Ok(()));
}

#[test]
fn references_are_pointers_into_the_schema() {
    let unknown = |reference: &str| Err(ExpansionError::Reference(reference.to_owned()));
    for reference in [
        "http://example.com/schema.json",
        "#name",
        "#/$defs/missing",
        "other.json#/a",
        "#/%24defs/a",
        "#/$defs/%61",
        // The pointers of the validator take this for a tilde and a one.
        "#/$defs/~~1",
        "#/$defs/a b",
    ] {
        assert_eq!(
            check(
                &json!({ "$ref": reference, "$defs": { "a": {}, "%61": {}, "~/": {}, "a b": {} } })
            ),
            unknown(reference)
        );
    }
    assert_eq!(
        check(&json!({ "$dynamicRef": "#a" })),
        Err(ExpansionError::Keyword("$dynamicRef"))
    );
    let inner = json!({ "$id": "urn:outer", "properties": { "a": { "$id": "urn:inner" } } });
    assert_eq!(check(&inner), Err(ExpansionError::Keyword("an inner $id")));
}

#[test]
fn properties_may_have_names_of_keywords() {
    let schema = json!({ "$id": "urn:it", "properties": { "$ref": { "type": "string" }, "$id": { "type": "string" } } });
    assert_eq!(check(&schema), Ok(()));
}

#[test]
fn patterns_are_few_and_short() {
    let each = |count: usize| json!({ "allOf": vec![json!({ "pattern": "^a$" }); count] });
    assert_eq!(check(&each(64)), Ok(()));
    assert_eq!(check(&each(65)), Err(ExpansionError::Patterns));
    let named: Map<String, Value> = (0..65).map(|n| (n.to_string(), json!({}))).collect();
    assert_eq!(
        check(&json!({ "patternProperties": named })),
        Err(ExpansionError::Patterns)
    );
    let long = |length: usize| json!({ "properties": { "a": { "pattern": "a".repeat(length) } } });
    assert_eq!(check(&long(512)), Ok(()));
    assert_eq!(check(&long(513)), Err(ExpansionError::Patterns));
    // A property of that name is none.
    let property = json!({ "properties": { "pattern": { "type": "string" } } });
    assert_eq!(check(&property), Ok(()));
}

#[test]
fn what_is_left_over_by_other_keywords_cannot_be_asked_for() {
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        let nested = (0..50).fold(
            json!({}),
            |inner, _| json!({ keyword: false, "allOf": [inner] }),
        );
        let hidden = json!({ "$ref": "#/properties", "properties": { keyword: false } });
        for schema in [nested, hidden, json!({ "items": { keyword: {} } })] {
            assert_eq!(check(&schema), Err(ExpansionError::Unevaluated(keyword)));
        }
        let property = json!({ "properties": { keyword: { "type": "string" } } });
        assert_eq!(check(&property), Ok(()));
    }
}

#[test]
fn only_drafts_are_accepted_whose_references_are_known() {
    let of = |draft: &str| json!({ "$schema": draft });
    for draft in [
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
    ] {
        assert_eq!(check(&of(draft)), Ok(()), "{draft}");
    }
    for draft in [
        "http://json-schema.org/draft-04/schema#",
        "json-schema.org/draft-07/schema",
        "urn:mine",
    ] {
        assert_eq!(
            check(&of(draft)),
            Err(ExpansionError::Draft(draft.to_owned()))
        );
    }
    let inner = json!({ "items": of("http://json-schema.org/draft-04/schema#") });
    assert_eq!(
        check(&inner),
        Err(ExpansionError::Keyword("an inner $schema"))
    );
}
