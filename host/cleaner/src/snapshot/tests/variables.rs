use jiff::Timestamp;
use podloom_cel::{Budget, Outcome, compile_all, evaluate_all};
use serde_json::{Value, json};

use super::super::variables;
use crate::fixtures::{kind, list, one, secret};
use crate::read::SeenTarget;

fn login() -> Value {
    let mut login = secret("login", "1");
    login["type"] = json!("Opaque");
    login["data"] = json!({ "password": "aHVudGVyMg==" });
    let copy = "{\"data\":{\"password\":\"aHVudGVyMg==\"}}";
    login["metadata"]["annotations"] = json!({
        "team": "x",
        "kubectl.kubernetes.io/last-applied-configuration": copy,
        "kapp.k14s.io/original": copy,
    });
    login
}

fn evaluated(mut target: SeenTarget, condition: &str) -> Outcome {
    target.kind = kind("Secret", "secrets");
    let variables = variables([&target]).unwrap();
    let programs = compile_all(&[condition], &["it"]).unwrap();
    let evaluation = evaluate_all(
        &programs,
        &variables,
        Timestamp::UNIX_EPOCH,
        Budget::EVALUATION,
    );
    evaluation.outcomes[0].clone()
}

/// Each evaluation would tell a bit to whoever writes conditions, and an error a whole value.
#[test]
fn conditions_see_no_value_of_a_secret() {
    for path in [
        "data.password",
        "data['password']",
        "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
        "metadata.annotations['kapp.k14s.io/original']",
    ] {
        for target in [one("it", login(), false), list("it", &[login()], false)] {
            let variable =
                match target.objects().len() == 1 && target.state().unwrap()["items"].is_array() {
                    true => "it.items[0]",
                    false => "it",
                };
            for condition in [
                format!("{variable}.{path} >= 'a'"),
                format!("{{}}[{variable}.{path}]"),
            ] {
                let Outcome::Error(failure) = evaluated(target.clone(), &condition) else {
                    panic!("{condition} has a value");
                };
                assert!(
                    failure
                        .message
                        .ends_with("conditions do not see this value"),
                    "{failure:?}"
                );
                assert!(!failure.message.contains("aHVudGVyMg"), "{failure:?}");
            }
        }
    }
}

#[test]
fn all_else_of_a_secret_can_be_asked_for() {
    for condition in [
        "it.type == 'Opaque' && it.metadata.name == 'login'",
        "'password' in it.data && !('user' in it.data)",
        "it.metadata.annotations.team == 'x'",
    ] {
        assert_eq!(
            evaluated(one("it", login(), false), condition),
            Outcome::True
        );
    }
}

#[test]
fn the_data_of_other_kinds_is_seen() {
    let mut map = login();
    map["kind"] = json!("ConfigMap");
    let mut target = one("it", map, false);
    target.kind = kind("ConfigMap", "configmaps");
    let variables = variables([&target]).unwrap();
    let programs = compile_all(&["it.data.password != ''"], &["it"]).unwrap();
    let evaluation = evaluate_all(
        &programs,
        &variables,
        Timestamp::UNIX_EPOCH,
        Budget::EVALUATION,
    );
    assert_eq!(evaluation.outcomes, [Outcome::True]);
}
