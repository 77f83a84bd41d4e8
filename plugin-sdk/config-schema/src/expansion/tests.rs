use serde_json::{Map, Value, json};

#[track_caller]
fn expand(schema: &Value, expected: &Value) {
    let expanded = super::expand(schema).map(|(schema, _)| schema);
    assert_eq!(expanded.as_ref(), Ok(expected));
}

fn check(schema: &Value) -> Result<(), String> {
    super::expand(schema).map(|_| ())
}

#[track_caller]
fn refused(schema: &Value, message: &str) {
    let error = check(schema).expect_err("a refusal");
    assert!(error.contains(message), "{error}");
}

const TOO_LARGE: &str = "expanded it has more than 16384 values, or more than 4 MiB of text";
const TOO_MANY_PATTERNS: &str = "it has more than 64 patterns, or one longer than 512 bytes";
const INNER_ID: &str = "it uses an inner $id, which changes what its references point to";

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
fn references_are_replaced_by_their_targets() {
    let defs = json!({
        "name": { "title": "A name", "minLength": 1 },
        "pair": { "items": { "$ref": "#/$defs/name" }, "maxItems": 2 },
    });
    expand(
        &json!({ "$ref": "#/$defs/pair", "$defs": defs }),
        &json!({ "items": { "minLength": 1 }, "maxItems": 2 }),
    );
    let beside = json!({ "$ref": "#/$defs/name", "maxLength": 9, "allOf": [true], "$defs": defs });
    expand(
        &beside,
        &json!({ "maxLength": 9, "allOf": [true, { "minLength": 1 }] }),
    );
    let mut ignored = beside;
    ignored["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    expand(&ignored, &json!({ "minLength": 1 }));
}

#[test]
fn descriptions_are_left_out_but_properties_of_these_names_are_kept() {
    expand(
        &json!({
            "$id": "urn:it",
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "description": "All of it.",
            "properties": { "description": { "type": "string", "format": "regex" } },
            "const": { "description": "as it is" },
        }),
        &json!({
            "properties": { "description": { "type": "string" } },
            "const": { "description": "as it is" },
        }),
    );
    let names = json!({ "properties": {
        "$ref": { "type": "string" },
        "$id": { "type": "string" },
        "unevaluatedItems": true,
    } });
    expand(&names, &names);
}

#[test]
fn the_size_of_an_expanded_schema_is_limited() {
    assert_eq!(check(&ladder(10, 2)), Ok(()));
    refused(&ladder(14, 2), TOO_LARGE);
    assert_eq!(check(&ladder(30, 1)), Ok(()));
    refused(
        &ladder(40, 1),
        "expanded it has more than 64 nested schemas",
    );
    let long = json!({ "const": "a".repeat(60_000) });
    let often =
        json!({ "$defs": { "a": long }, "allOf": vec![json!({ "$ref": "#/$defs/a" }); 100] });
    refused(&often, TOO_LARGE);
}

#[test]
fn a_long_name_counts_with_each_value_below_it() {
    let names = |count: usize| (0..count).map(|n| (n.to_string(), json!([])));
    let below = |places: usize| {
        [
            json!({ "allOf": vec![json!({}); places] }),
            json!({ "allOf": vec![true; places] }),
            json!({ "dependentRequired": names(places).collect::<Map<_, _>>() }),
        ]
        .map(|inner| json!({ "properties": { "a".repeat(30_000): inner } }))
    };
    for schema in below(100) {
        assert_eq!(check(&schema), Ok(()));
    }
    for schema in below(200) {
        refused(&schema, TOO_LARGE);
    }
}

/// The validator keeps a copy of the schema in a `not`, for its message.
#[test]
fn a_schema_in_many_nots_counts_with_each() {
    let nested = |levels: usize| {
        (0..levels).fold(
            json!({ "enum": vec![0; 1000] }),
            |inner, _| json!({ "not": inner }),
        )
    };
    assert_eq!(check(&nested(10)), Ok(()));
    refused(&nested(20), TOO_LARGE);
}

#[test]
fn recursive_schemas_are_refused() {
    let circle = |reference: &str| format!("its reference {reference:?} is recursive; ");
    let tree = json!({ "$ref": "#/$defs/node", "$defs": { "node": { "properties": { "child": { "$ref": "#/$defs/node" } } } } });
    refused(&tree, &circle("#/$defs/node"));
    refused(&json!({ "$ref": "#" }), &circle("#"));
    let inner = json!({ "properties": { "a": { "items": { "$ref": "#/properties/a" } } } });
    refused(&inner, &circle("#/properties/a"));
    let unused = json!({ "$defs": { "node": { "$ref": "#/$defs/node" } } });
    assert_eq!(check(&unused), Ok(()));
}

#[test]
fn references_are_pointers_into_the_schema() {
    for reference in [
        "http://example.com/schema.json",
        "#name",
        "#/$defs/missing",
        "other.json#/a",
        "#/%24defs/a",
        "#/$defs/%61",
    ] {
        refused(
            &json!({ "$ref": reference, "$defs": { "a": {}, "%61": {} } }),
            &format!("its reference {reference:?} does not point into the schema"),
        );
    }
    refused(
        &json!({ "$ref": 5 }),
        "its reference \"5\" does not point into the schema",
    );
    refused(
        &json!({ "$dynamicRef": "#a" }),
        "it uses $dynamicRef, which changes what its references point to",
    );
    let inner = json!({ "$id": "urn:outer", "properties": { "a": { "$id": "urn:inner" } } });
    refused(&inner, INNER_ID);
    let referred = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$id": "urn:inner" } } });
    refused(&referred, INNER_ID);
}

#[test]
fn patterns_are_few_and_short() {
    let each = |count: usize| {
        let patterns: Vec<Value> = (0..count)
            .map(|n| json!({ "pattern": n.to_string() }))
            .collect();
        json!({ "allOf": patterns })
    };
    assert_eq!(check(&each(64)), Ok(()));
    refused(&each(65), TOO_MANY_PATTERNS);
    assert_eq!(
        check(&json!({ "allOf": vec![json!({ "pattern": "a" }); 200] })),
        Ok(())
    );
    let named: Map<String, Value> = (0..33).map(|n| (n.to_string(), json!({}))).collect();
    let named = json!({ "patternProperties": named });
    assert_eq!(check(&named), Ok(()));
    refused(&json!({ "allOf": [named, named] }), TOO_MANY_PATTERNS);
    let long = |length: usize| json!({ "properties": { "a": { "pattern": "a".repeat(length) } } });
    assert_eq!(check(&long(512)), Ok(()));
    refused(&long(513), TOO_MANY_PATTERNS);
    // A property of that name is not a pattern.
    let property = json!({ "properties": { "pattern": { "type": "string" } } });
    assert_eq!(check(&property), Ok(()));
}

#[test]
fn unevaluated_keywords_are_refused() {
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        let hidden = json!({ "$ref": "#/properties", "properties": { keyword: false } });
        for schema in [hidden, json!({ "items": { keyword: {} } })] {
            let message = format!("it uses {keyword}, which cannot be checked in bounded time");
            refused(&schema, &message);
        }
    }
}

#[test]
fn only_supported_drafts_are_accepted() {
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
        refused(
            &of(draft),
            &format!("its $schema is {draft:?}, but only the drafts "),
        );
    }
    let inner = json!({ "items": of("http://json-schema.org/draft-07/schema#") });
    let message = "it uses an inner $schema, which changes what its references point to";
    refused(&inner, message);
}
