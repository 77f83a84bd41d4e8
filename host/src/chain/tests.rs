//! Conditions of chains leave out no pod that a plugin takes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use podloom_cel::{Budget, Outcome, Variables, compile_all, evaluate_all};
use podloom_mutation::PodRequest;
use podloom_mutators::{Match, Takes};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::{option, sample};
use serde_json::{Value, json};

use super::match_conditions;

/// Whether the condition lets a pod through.
#[track_caller]
fn holds(condition: &str, namespace: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
    let mut pod = json!({ "metadata": { "generateName": "pod-" } });
    if let Some(labels) = labels {
        pod["metadata"]["labels"] = json!(labels);
    }
    let mut variables = Variables::default();
    variables.insert("object", &pod).unwrap();
    let request = json!({ "namespace": namespace });
    variables.insert("request", &request).unwrap();
    let programs = compile_all(&[condition], &["object", "request"]).unwrap();
    let now = Timestamp::UNIX_EPOCH;
    let evaluation = evaluate_all(&programs, &variables, now, Budget::EVALUATION);
    match &evaluation.outcomes[0] {
        Outcome::True => true,
        Outcome::False => false,
        other => panic!("{condition}: {other:?}"),
    }
}

fn key() -> impl Strategy<Value = &'static str> {
    sample::select(vec!["app", "example.com/tier", "it's", "\\n\n"])
}

fn value() -> impl Strategy<Value = &'static str> {
    sample::select(vec!["", "web", "''", "\u{e9}\u{1f4a5}"])
}

fn expression() -> impl Strategy<Value = Value> {
    let operator = sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    (key(), operator, vec(value(), 1..3)).prop_map(|(key, operator, values)| {
        let takes = operator.ends_with("In");
        let values = if takes { values } else { Vec::new() };
        json!({ "key": key, "operator": operator, "values": values })
    })
}

fn matching() -> impl Strategy<Value = Match> {
    let selector = (btree_map(key(), value(), 0..2), vec(expression(), 0..3));
    let selector = selector.prop_map(
        |(labels, expressions)| json!({ "matchLabels": labels, "matchExpressions": expressions }),
    );
    let kinds = sample::select(vec![
        json!(["Pod"]),
        json!(["Browser"]),
        json!(["Browser", "Pod"]),
    ]);
    let fields = (
        option::of(kinds),
        option::of(vec("[a*-]{1,4}", 1..3)),
        option::of(btree_map(key(), value(), 0..2)),
        option::of(selector),
    );
    fields.prop_map(|(kinds, namespaces, of_namespace, selector)| {
        let of_namespace = of_namespace.map(|labels| json!({ "matchLabels": labels }));
        let matches = json!({
            "kinds": kinds, "namespaces": namespaces, "namespaceSelector": of_namespace, "selector": selector,
        });
        serde_json::from_value(matches).unwrap()
    })
}

proptest! {
    #[test]
    fn a_condition_leaves_out_exactly_what_no_plugin_takes(
        plugins in vec(matching(), 0..4),
        namespace in "[a-]{1,4}",
        labels in option::of(btree_map(key(), value(), 0..3)),
        namespace_labels in btree_map(key(), value(), 0..3),
    ) {
        let owned = |labels: BTreeMap<&str, &str>| -> BTreeMap<String, String> {
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let labels = labels.map(owned);
        let request = PodRequest {
            kind: "Pod",
            namespace: namespace.clone(),
            namespace_labels: owned(namespace_labels),
            ..PodRequest::default()
        };
        let label = |key: &str| labels.as_ref()?.get(key).map(String::as_str);
        let is_taken = plugins.iter().any(|it| it.excludes(&request, label).is_none());
        let reaches = match Takes::of(plugins.iter().map(|it| ("it", it))) {
            Takes::Each(_) => true,
            Takes::Some(condition) => holds(&condition, &namespace, labels.as_ref()),
        };
        prop_assert!(reaches || !is_taken);
        if !plugins.iter().any(Match::selects_namespaces) {
            prop_assert_eq!(reaches, is_taken);
        }
    }
}

#[track_caller]
fn check(plugins: &str, expected: &str) {
    let plugins: Vec<Match> = serde_saphyr::from_str(plugins).unwrap();
    let names = ["first", "second"].into_iter();
    let text = match_conditions(&Takes::of(names.zip(&plugins))).unwrap();
    let text = anstream::adapter::strip_str(&text).to_string();
    assert_eq!(
        text.split_once('\n').unwrap(),
        expected.split_once('\n').unwrap()
    );
}

#[test]
fn a_condition_is_simple() {
    let title = "what keeps pods that no plugin takes from the webhook pods.podloom.dev";
    let of = |expression: &str| {
        format!(
            "{title}\nmatchConditions:\n- expression: {expression}\n  name: podloom.dev/chain\n"
        )
    };
    check("[]", &of("\"false\""));
    check(
        "[{kinds: [Browser]}, {namespaces: [shop]}]",
        &of("request.namespace == 'shop'"),
    );
    check(
        "[{namespaces: ['team-*', '*-a-*']}, {selector: {matchExpressions: [{key: app, operator: Exists}]}}]",
        &of(
            "(request.namespace.startsWith('team-') || request.namespace.contains('-a-')) || has(object.metadata.labels) && 'app' in object.metadata.labels",
        ),
    );
    check(
        "[{namespaces: [shop]}, {namespaceSelector: {matchLabels: {a: b}}}]",
        "the webhook needs every pod, since second may take each\n",
    );
}
