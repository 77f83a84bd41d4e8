use std::collections::BTreeMap;

use podloom_mutation::{Dimension, PodRequest};

use super::{Match, matches};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Matches a Browser in the namespace team-a, which is labelled env=prod; the pod is labelled tier=web.
#[track_caller]
fn check(yaml: &str, expected: Option<Dimension>) {
    let matches: Match = serde_saphyr::from_str(yaml).expect("a match");
    let request = PodRequest {
        kind: "Browser",
        namespace: "team-a".to_owned(),
        namespace_labels: labels(&[("env", "prod")]),
        ..PodRequest::default()
    };
    let pod = labels(&[("tier", "web")]);
    assert_eq!(
        matches.excludes(&request, |key| pod.get(key).map(String::as_str)),
        expected,
        "{yaml}"
    );
}

#[track_caller]
fn check_error(yaml: &str, expected: &str) {
    let error = serde_saphyr::from_str::<Match>(yaml)
        .expect_err("a refusal")
        .to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn all_given_dimensions_must_hold() {
    check("{}", None);
    check("{kinds: [Pod, Browser]}", None);
    check("{kinds: [Pod]}", Some(Dimension::Kinds));
    check("{kinds: [Browser], namespaces: [team-*]}", None);
    check(
        "{namespaces: [other, 'team-?']}".replace('?', "b").as_str(),
        Some(Dimension::Namespaces),
    );
    check("{namespaceSelector: {}}", None);
    check("{namespaceSelector: {matchLabels: {env: prod}}}", None);
    check(
        "{namespaceSelector: {matchLabels: {env: test}}}",
        Some(Dimension::NamespaceSelector),
    );
    check("{selector: {matchLabels: {tier: web}}}", None);
    check(
        "{selector: {matchLabels: {tier: web, app: x}}}",
        Some(Dimension::Selector),
    );
    check(
        "{namespaceSelector: {matchLabels: {env: test}}, selector: {matchLabels: {a: b}}}",
        Some(Dimension::Selector),
    );
    check(
        "{kinds: [Pod], namespaces: [x], selector: {matchLabels: {a: b}}}",
        Some(Dimension::Kinds),
    );
}

#[test]
fn expressions_are_those_of_kubernetes() {
    let expression = |text: &str, holds: bool| {
        let excluded = (!holds).then_some(Dimension::Selector);
        check(
            &format!("{{selector: {{matchExpressions: [{text}]}}}}"),
            excluded,
        );
    };
    expression("{key: tier, operator: In, values: [db, web]}", true);
    expression("{key: tier, operator: In, values: [db]}", false);
    expression("{key: app, operator: In, values: [db]}", false);
    expression("{key: tier, operator: NotIn, values: [db]}", true);
    expression("{key: tier, operator: NotIn, values: [web]}", false);
    expression("{key: app, operator: NotIn, values: [web]}", true);
    expression("{key: tier, operator: Exists}", true);
    expression("{key: app, operator: Exists}", false);
    expression("{key: app, operator: DoesNotExist}", true);
    expression("{key: tier, operator: DoesNotExist}", false);
    expression(
        "{key: tier, operator: Exists}, {key: app, operator: Exists}",
        false,
    );
}

#[test]
fn a_match_that_never_matches_or_means_nothing_is_refused() {
    check_error(
        "{kinds: []}",
        "kinds is empty, so the plugin would never run",
    );
    check_error(
        "{namespaces: []}",
        "namespaces is empty, so the plugin would never run",
    );
    check_error("{kinds: [pod]}", "\"pod\" is not a kind");
    check_error(
        "{namespaces: ['team-?']}",
        "is not a namespace or a pattern",
    );
    check_error("{kind: [Pod]}", "kind");
    check_error(
        "{selector: {matchExpressions: [{key: a, operator: In}]}}",
        "the expression on \"a\" needs values",
    );
    check_error(
        "{selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}",
        "takes no values",
    );
    check_error(
        "{selector: {matchExpressions: [{key: a, operator: Gt, values: [b]}]}}",
        "DoesNotExist",
    );
}

#[test]
fn a_star_stands_for_any_characters() {
    let check = |glob: &str, name: &str, expected: bool| {
        assert_eq!(matches(glob, name), expected, "{glob} {name}")
    };
    check("a", "a", true);
    check("a", "ab", false);
    check("*", "", true);
    check("*", "anything", true);
    check("team-*", "team-", true);
    check("team-*", "tea", false);
    check("*-prod", "a-prod", true);
    check("*-prod", "prod", false);
    check("a*b*c", "abc", true);
    check("a*b*c", "axxbyyc", true);
    check("a*b*c", "acb", false);
    check("a*a", "a", false);
    check("*ab*ab", "abab", true);
    check("*ab*ab", "aab", false);
    check("a**b", "ab", true);
}
