use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use podloom_api::names;

use super::{Options, matches};

fn metadata(text: &str) -> ObjectMeta {
    ObjectMeta {
        annotations: Some([(names::annotation::OPTIONS.to_owned(), text.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = Options::read(&metadata(text)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("annotation selenosis.io/options{expected}")
    );
}

#[test]
fn absent_options_are_no_options() {
    assert_eq!(
        Options::read(&ObjectMeta::default()).unwrap(),
        Options::default()
    );
    for text in [
        "",
        "  ",
        "{}",
        r#"{"labels": null, "containers": null}"#,
        "null",
        r#"{"of the future": [1]}"#,
    ] {
        assert_eq!(
            Options::read(&metadata(text)).unwrap(),
            Options::default(),
            "{text}"
        );
    }
}

#[test]
fn a_star_stands_for_any_characters() {
    let check = |pattern: &str, key: &str, expected: bool| {
        assert_eq!(matches(pattern, key), expected, "{pattern} {key}");
    };
    check("LANG", "LANG", true);
    check("LANG", "LANGUAGE", false);
    check("APP_*", "APP_", true);
    check("APP_*", "MY_APP_A", false);
    check("*_TIMEOUT", "IDLE_TIMEOUT", true);
    check("*_TIMEOUT", "IDLE_TIMEOUTS", false);
    check("*", "", true);
    check("a*b*c", "axbxc", true);
    check("a*b*c", "acb", false);
    check("a*a", "a", false);
    check("a**b", "ab", true);
}

/// A session may hold as many options as an annotation does, and the list came from whoever may create Browsers.
#[test]
fn variables_are_not_searched_for_among_each_other() {
    let name = |number: usize| format!("VARIABLE_{number}");
    let asked: serde_json::Map<_, _> = (0..20_000)
        .map(|number| (name(number), "new".into()))
        .collect();
    let text = serde_json::json!({ "containers": { "browser": { "env": asked } } }).to_string();
    let options = Options::read(&metadata(&text)).unwrap();
    let old = (10_000..30_000).map(|number| EnvVar {
        name: name(number),
        value: Some("old".to_owned()),
        value_from: None,
    });
    let mut container = Container {
        name: "browser".to_owned(),
        env: Some(old.collect()),
        ..Container::default()
    };
    options.apply(&mut container);
    let env = container.env.unwrap();
    let count = |value: &str| {
        let has = |variable: &&EnvVar| variable.value.as_deref() == Some(value);
        env.iter().filter(has).count()
    };
    assert_eq!(
        (env.len(), count("new"), count("old")),
        (30_000, 20_000, 10_000)
    );
}

#[test]
fn null_is_empty() {
    let text = r#"{
        "labels": {"team": null},
        "containers": {"a": null, "b": {"env": null}, "c": {"env": {"X": null}}}
    }"#;
    let options = Options::read(&metadata(text)).unwrap();
    assert_eq!(options.labels["team"], "");
    assert!(options.env["a"].is_empty());
    assert!(options.env["b"].is_empty());
    assert_eq!(options.env["c"]["X"], "");
}

#[test]
fn errors_say_what_and_where() {
    check_error(
        "{",
        r#" is not valid JSON: EOF while parsing an object at line 1 column 1; write for example {"labels": {"team": "search"}}"#,
    );
    check_error(
        r#"{"labels": {"a": "b",}}"#,
        r#" is not valid JSON: trailing comma at line 1 column 22; write for example {"labels": {"team": "search"}}"#,
    );
    check_error("[]", ": the whole is a list, use an object");
    check_error(
        r#"{"labels": "a=b"}"#,
        ": labels is a string, use an object",
    );
    check_error(
        r#"{"labels": {"team": 7}}"#,
        ": labels.team is a number, use a string",
    );
    check_error(
        r#"{"labels": {"a b": "c"}}"#,
        r#": labels holds "a b", which is not a valid label key"#,
    );
    check_error(
        r#"{"containers": []}"#,
        ": containers is a list, use an object",
    );
    check_error(
        r#"{"containers": {"browser": 1}}"#,
        ": containers.browser is a number, use an object",
    );
    check_error(
        r#"{"containers": {"browser": {"env": {"DEBUG": true}}}}"#,
        ": containers.browser.env.DEBUG is a boolean, use a string",
    );
    check_error(
        r#"{"containers": {"browser": {"env": {"A=B": ""}}}}"#,
        r#": containers.browser.env holds "A=B", which is not a valid variable name"#,
    );
}

#[test]
fn errors_never_show_values() {
    let texts = [
        r#"{"labels": {"token": ["s3cret"]}}"#,
        r#"{"containers": {"browser": {"env": {"TOKEN": ["s3cret"]}}}}"#,
        r#"{"containers": {"browser": {"env": {"TOKEN": "s3cret" "#,
        r#"{"containers": {"browser": {"env": {"TOKEN": s3cret}}}}"#,
        r#"{"containers": "s3cret"}"#,
    ];
    for text in texts {
        let error = Options::read(&metadata(text)).unwrap_err();
        assert!(!format!("{error}").contains("s3cret"), "{error}");
    }
}

#[test]
fn values_of_labels_are_made_valid() {
    let options = Options::read(&metadata(r#"{"labels": {"test": "login works (de)"}}"#)).unwrap();
    assert_eq!(options.labels["test"], "login-works--de");
}

#[test]
fn variables_are_replaced_where_they_are_and_new_ones_follow() {
    let text = r#"{"containers": {
        "browser": {"env": {"Z": "z", "TZ": "CET", "A": "a"}},
        "nobody": {"env": {"X": "x"}}
    }}"#;
    let options = Options::read(&metadata(text)).unwrap();
    let variable = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let mut container = Container {
        name: "browser".to_owned(),
        env: Some(vec![
            EnvVar {
                value: None,
                value_from: Some(EnvVarSource::default()),
                ..variable("TZ", "")
            },
            variable("LANG", "en"),
        ]),
        ..Container::default()
    };
    options.apply(&mut container);
    assert_eq!(
        container.env.unwrap(),
        [
            variable("TZ", "CET"),
            variable("LANG", "en"),
            variable("A", "a"),
            variable("Z", "z")
        ],
    );
    let mut other = Container {
        name: "other".to_owned(),
        ..Container::default()
    };
    options.apply(&mut other);
    assert_eq!(other.env, None);
}
