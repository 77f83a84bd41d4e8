mod pattern;

use serde_json::{Value, json};

use crate::Problem;

fn check(schema: &Value, config: &Value) -> Result<(), Problem> {
    super::check(schema, config).map(|_| ())
}

#[test]
fn a_schema_that_multiplies_with_each_level_is_refused() {
    let nested = |levels: usize, keyword: &str| {
        (0..levels).fold(
            json!({}),
            |inner, _| json!({ "items": { keyword: [inner, inner] } }),
        )
    };
    let lists = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner, inner, inner]));
    for keyword in ["allOf", "anyOf", "oneOf"] {
        assert_eq!(check(&nested(4, keyword), &lists(4)), Ok(()), "{keyword}");
        assert_eq!(
            check(&nested(8, keyword), &lists(8)),
            Err(Problem::TooLarge),
            "{keyword}"
        );
    }
}

#[test]
fn nested_choices_are_applied_once_more_for_each() {
    let nested = (0..30).fold(json!({}), |inner, _| json!({ "anyOf": [inner] }));
    assert_eq!(check(&nested, &json!(1)), Ok(()));
}

#[test]
fn many_patterns_on_much_text_are_refused() {
    let patterns = vec![json!({ "pattern": "a*b" }); 60];
    let schema = json!({ "items": { "allOf": patterns } });
    let texts = |count: usize| json!(vec!["a".repeat(640); count]);
    assert_eq!(check(&schema, &texts(5)), Ok(()));
    assert_eq!(check(&schema, &texts(10)), Err(Problem::TooLarge));
    let label = json!({ "items": { "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" } });
    assert_eq!(check(&label, &json!(vec!["a".repeat(63); 1000])), Ok(()));
    // Each byte of the text leads to thousands of states.
    for slow in ["[ab]*a[ab]{3000}x", "[ab]*a(([ab]{10}){20}){15}x"] {
        for schema in [
            json!({ "pattern": slow }),
            json!({ "propertyNames": { "pattern": slow } }),
            json!({ "patternProperties": { slow: true } }),
        ] {
            let text = "a".repeat(10_000);
            let config = if schema["pattern"].is_null() {
                json!({ text: 1 })
            } else {
                json!(text)
            };
            assert_eq!(check(&schema, &config), Err(Problem::TooLarge), "{schema}");
        }
    }
}

#[test]
fn long_lists_of_texts_may_have_to_be_unique_but_not_those_of_objects() {
    let unique = json!({ "uniqueItems": true });
    let texts: Vec<String> = (0..10_000).map(|index| index.to_string()).collect();
    assert_eq!(check(&unique, &json!(texts)), Ok(()));
    assert_eq!(check(&unique, &json!(vec![json!([1]); 500])), Ok(()));
    assert_eq!(
        check(&unique, &json!(vec![json!([1]); 2000])),
        Err(Problem::TooLarge)
    );
    let fifteen = |long: usize| json!(vec![json!(vec![1; long]); 15]);
    assert_eq!(check(&unique, &fifteen(1000)), Ok(()));
    assert_eq!(check(&unique, &fifteen(5000)), Err(Problem::TooLarge));
}

#[test]
fn a_large_configuration_of_a_plain_schema_is_fine() {
    let schema = json!({ "properties": { "containers": { "items": { "properties": {
        "name": { "type": "string" },
        "env": { "items": { "required": ["name"], "additionalProperties": { "type": "string" } } },
    } } } } });
    let env = vec![json!({ "name": "A", "value": "b" }); 1000];
    let container = json!({ "name": "app", "env": env });
    let config = json!({ "containers": vec![container; 10] });
    assert_eq!(super::check(&schema, &config), Ok(true));
}

#[test]
fn long_lists_in_a_schema_count_with_each_compared_value() {
    let names: Vec<String> = (0..5000).map(|index| index.to_string()).collect();
    let long = "a".repeat(60_000);
    for keywords in [
        json!({ "required": names }),
        json!({ "dependentRequired": { "b": names } }),
        json!({ "dependencies": { "b": names } }),
        json!({ "enum": names }),
        json!({ "const": names }),
        json!({ "enum": [vec![0; 5000]] }),
        json!({ "allOf": vec![json!({ "const": long }); 5] }),
    ] {
        let schema = json!({ "items": keywords });
        assert_eq!(check(&schema, &json!(vec![json!({}); 10])), Ok(()));
        assert_eq!(
            check(&schema, &json!(vec![json!({}); 60])),
            Err(Problem::TooLarge),
            "{keywords}"
        );
    }
    let length = json!({ "items": { "allOf": vec![json!({ "minLength": 1 }); 60] } });
    assert_eq!(
        check(&length, &json!(vec!["a".repeat(6400); 50])),
        Err(Problem::TooLarge)
    );
}

#[test]
fn errors_count_with_the_memory_that_they_keep() {
    let too_many = |schema: &Value, config: &Value| {
        assert_eq!(super::check(schema, config), Ok(false));
    };
    // A copy of the value for each branch.
    let branches = vec![json!({ "required": ["a"] }); 3000];
    too_many(
        &json!({ "anyOf": branches }),
        &json!({ "big": vec![1; 20_000] }),
    );
    // A copy of the schema for each value.
    let not = json!({ "not": { "properties": { "a".repeat(60_000): true } } });
    too_many(&json!({ "items": not }), &json!(vec![1; 10_000]));
    // The pointer to each value.
    let items = json!({ "items": { "type": "string" } });
    too_many(
        &json!({ "additionalProperties": items }),
        &json!({ "a".repeat(500_000): vec![1; 1000] }),
    );
    // Errors inside a not are not kept.
    let silent = json!({ "not": { "anyOf": branches } });
    assert_eq!(
        super::check(&silent, &json!({ "big": vec![1; 20_000] })),
        Ok(true)
    );
}
