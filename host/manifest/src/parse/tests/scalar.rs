use serde_json::Value;

use crate::parse::{documents, integral, resolve};
use crate::source::Source;
use crate::syntax::Raw;
use crate::yaml;

/// Each scalar, and what kubectl's library makes of it: JSON, `text`, or `not finite`.
fn table() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("kubectl.txt").lines();
    lines.filter_map(|line| line.split_once(" = "))
}

fn read(text: &str) -> Result<Value, String> {
    let source = Source {
        name: "a.yaml".into(),
        text: text.into(),
    };
    match documents(&source) {
        Ok(documents) => Ok(documents.into_iter().next().unwrap().value),
        Err(errors) => Err(errors.first().unwrap().to_string()),
    }
}

/// The number that is expected. Beyond 2^53 a float stays one here; it prints the same.
fn number(scalar: &str, json: &str) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match serde_json::from_str(json).unwrap() {
        Value::Number(number) => {
            let float = number.as_f64().filter(|it| it.abs() >= EXACT);
            let is_float =
                scalar.contains('.') || scalar.contains(['e', 'E']) && !scalar.contains('x');
            match float.filter(|_| is_float) {
                Some(float) => Value::from(float),
                None => Value::Number(integral(number)),
            }
        }
        other => other,
    }
}

#[test]
fn plain_scalars_are_read_as_kubectl_reads_them() {
    for (scalar, expected) in table() {
        let in_lists = format!("- {scalar}\n- &a {scalar}\n- *a\n- !!str {scalar}\n- '{scalar}'\n");
        let text = Value::from(scalar);
        let value = match expected {
            "text" => text.clone(),
            "not finite" => {
                assert!(matches!(resolve(scalar), Raw::NotFinite));
                let error = read(&in_lists).unwrap_err();
                let advice = format!("write \"{scalar}\"");
                assert!(
                    error.contains("a.yaml:1:3") && error.contains(&advice),
                    "{error}"
                );
                continue;
            }
            json => number(scalar, json),
        };
        let expected = Value::from(vec![
            value.clone(),
            value.clone(),
            value,
            text.clone(),
            text,
        ]);
        assert_eq!(read(&in_lists), Ok(expected), "{scalar}");
    }
}

/// What is printed means the same to kubectl, and to us.
#[test]
fn texts_that_look_like_something_else_are_quoted() {
    for (scalar, expected) in table() {
        let written = yaml(&Value::from(scalar)).unwrap();
        let is_quoted = written.starts_with(['"', '\'']);
        assert!(is_quoted || expected == "text", "{scalar}: {written}");
        assert_eq!(read(&written), Ok(Value::from(scalar)), "{written}");
    }
}

#[test]
fn a_commit_is_a_key_and_a_value() {
    let read = read("labels: {83e2010: 83e2010}\n");
    assert_eq!(
        read,
        Ok(serde_json::json!({"labels": {"83e2010": "83e2010"}}))
    );
}
