//! What conditions can do, and what they cannot: `conformance.yaml`.
#![expect(
    clippy::unwrap_used,
    reason = "a test has no other way to fail; the lint sees only functions marked as tests"
)]

use std::collections::BTreeMap;

use jiff::Timestamp;
use podloom_cel::{Budget, LONGEST_MESSAGE, Outcome, Variables, compile_all, evaluate_all};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    about: String,
    #[serde(default)]
    with: BTreeMap<String, serde_json::Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    condition: String,
    is: Option<bool>,
    fails: Option<String>,
    refused: Option<String>,
}

/// What came of a condition, in the words of the cases.
#[derive(Debug)]
enum Came {
    Is(bool),
    Fails(String),
    Refused(String),
}

fn evaluate(condition: &str, section: &Section, variables: &Variables) -> Came {
    let names: Vec<&str> = section.with.keys().map(String::as_str).collect();
    let programs = match compile_all(&[condition], &names) {
        Ok(programs) => programs,
        Err(failures) => return Came::Refused(failures[0].message.clone()),
    };
    let time: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
    let evaluation = evaluate_all(&programs, variables, time, Budget::EVALUATION);
    match &evaluation.outcomes[0] {
        Outcome::True => Came::Is(true),
        Outcome::False => Came::Is(false),
        Outcome::Error(failure) => Came::Fails(failure.message.clone()),
    }
}

fn is_as_expected(case: &Case, came: &Came) -> bool {
    match (case, came) {
        (
            Case {
                is: Some(expected),
                fails: None,
                refused: None,
                ..
            },
            Came::Is(is),
        ) => expected == is,
        (
            Case {
                is: None,
                fails: Some(part),
                refused: None,
                ..
            },
            Came::Fails(message),
        )
        | (
            Case {
                is: None,
                fails: None,
                refused: Some(part),
                ..
            },
            Came::Refused(message),
        ) => {
            message.contains(part.as_str())
                && message.starts_with("conditions[0]: ")
                && message.len() <= LONGEST_MESSAGE
        }
        _ => false,
    }
}

#[test]
fn conditions_come_to_what_the_cases_say() {
    let sections: Vec<Section> =
        serde_saphyr::from_str(include_str!("conformance.yaml")).expect("the cases are YAML");
    let mut wrong = Vec::new();
    let mut cases = 0;
    for section in &sections {
        let mut variables = Variables::default();
        for (name, object) in &section.with {
            variables.insert(name, object).unwrap();
        }
        for case in &section.cases {
            cases += 1;
            let came = evaluate(&case.condition, section, &variables);
            if !is_as_expected(case, &came) {
                let about = &section.about;
                wrong.push(format!("{about}: {} came to {came:?}", case.condition));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(cases > 200, "only {cases} cases found");
}
