//! Plugins that commute by their grants give equal bytes in both orders, or both orders reject the pod.

use std::sync::OnceLock;

use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::{Chain, bundle, load, request};

/// Standard plugins with configurations that have little to do with each other, and some that have.
fn plugins() -> Vec<Value> {
    let entry = |name: &str, plugin: &str, allow: Value, config: Value| {
        json!({
            "name": name, "file": format!("{plugin}.wasm.gz"), "allow": allow, "config": config, "idempotent": false,
        })
    };
    let mut tiered = entry(
        "tiered",
        "labels",
        json!(["/metadata/annotations/example.com~1tier"]),
        json!({ "annotations": [{ "key": "example.com/tier", "value": "front" }] }),
    );
    tiered["match"] = json!({ "selector": { "matchLabels": { "tier": "front" } } });
    vec![
        entry(
            "team",
            "labels",
            json!(["/metadata/labels/team"]),
            json!({
                "labels": [{ "key": "team", "value": "$(pod/spec/serviceAccountName)", "default": "none", "mode": "overwrite" }],
            }),
        ),
        entry(
            "tier",
            "labels",
            json!(["/metadata/labels/tier"]),
            json!({
                "labels": [{ "key": "tier", "value": "$(pod/metadata/labels/team)", "default": "front" }],
            }),
        ),
        entry(
            "account",
            "labels",
            json!(["/metadata/annotations/example.com~1account"]),
            json!({
                "annotations": [{ "key": "example.com/account", "value": "$(namespace/labels/team)", "default": "none" }],
            }),
        ),
        tiered,
        entry(
            "env",
            "sidecar",
            json!([
                "/spec/containers/*/env/[name=PROXY]",
                "/metadata/annotations/sidecar.podloom.dev~1injected"
            ]),
            json!({
                "addToContainers": { "env": [{ "name": "PROXY", "value": "127.0.0.1:9901" }] },
            }),
        ),
        entry(
            "companion",
            "sidecar",
            json!([
                "/spec/initContainers/[name=companion]",
                "/metadata/annotations/sidecar.podloom.dev~1injected"
            ]),
            json!({
                "containers": [{ "container": { "name": "companion", "image": "registry.example.com/companion:1.0" } }],
            }),
        ),
        entry(
            "restricted",
            "hardening",
            json!([
                "/spec/securityContext",
                "/spec/containers/*/securityContext",
                "/spec/initContainers/*/securityContext"
            ]),
            json!({
                "mode": "enforce", "profile": "restricted",
            }),
        ),
    ]
}

/// Each two plugins that commute, as chains of both orders.
fn pairs() -> &'static [(String, [Chain; 2])] {
    static PAIRS: OnceLock<Vec<(String, [Chain; 2])>> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let Some(bundle) = bundle() else {
            return Vec::new();
        };
        let chain = load(&bundle, &plugins());
        let count = chain.plugins().len();
        let numbers = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
        let commuting =
            numbers.filter(|(one, other)| chain.order_dependence(*one, *other).is_none());
        let pairs = commuting.map(|(one, other)| {
            let [first, second] = [one, other].map(|number| &chain.plugins()[number].name);
            let orders = [chain.select(&[one, other]), chain.select(&[other, one])];
            (format!("{first}, {second}"), orders)
        });
        pairs.collect()
    })
}

fn texts(values: &[&str]) -> impl Strategy<Value = Value> + use<> {
    select(values.iter().map(|it| json!(it)).collect::<Vec<_>>())
}

fn maybe<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::weighted(0.4, value)
}

/// An object of those fields that are there.
fn object(fields: Vec<(&str, Option<Value>)>) -> Value {
    let present = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(present.collect())
}

fn containers(prefix: &'static str, fewest: usize) -> impl Strategy<Value = Value> {
    let env = prop_oneof![
        Just(json!([])),
        Just(json!([{ "name": "A", "value": "1" }])),
        Just(json!([{ "name": "PROXY", "value": "own" }])),
    ];
    let context = select(vec![
        json!({}),
        json!({ "runAsUser": 0 }),
        json!({ "privileged": true }),
        json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } }),
    ]);
    let container = (maybe(env), maybe(context)).prop_map(|(env, context)| {
        object(vec![
            ("image", Some(json!("a:1"))),
            ("env", env),
            ("securityContext", context),
        ])
    });
    proptest::collection::vec(container, fewest..3).prop_map(move |mut list| {
        for (number, container) in list.iter_mut().enumerate() {
            container["name"] = json!(format!("{prefix}{number}"));
        }
        Value::Array(list)
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let labels = ["app", "team", "tier", "sidecar.podloom.dev/inject"];
    let labels = (
        subsequence(labels.to_vec(), 0..4),
        texts(&["true", "front", "web"]),
    );
    let labels = labels.prop_map(|(keys, value)| {
        object(
            keys.into_iter()
                .map(|key| (key, Some(value.clone())))
                .collect(),
        )
    });
    let annotations = select(vec![
        json!({}),
        json!({ "example.com/a": "b" }),
        json!({ "example.com/tier": "back" }),
    ]);
    let metadata = (maybe(labels), maybe(annotations)).prop_map(|(labels, annotations)| {
        object(vec![
            ("name", Some(json!("p"))),
            ("labels", labels),
            ("annotations", annotations),
        ])
    });
    let context = select(vec![
        json!({}),
        json!({ "runAsNonRoot": true }),
        json!({ "runAsUser": 0 }),
    ]);
    let spec = (
        containers("c", 1),
        maybe(containers("i", 0)),
        maybe(context),
        maybe(texts(&["web", "db"])),
        maybe(Just(json!(true))),
    );
    let spec = spec.prop_map(|(containers, init, context, account, network)| {
        object(vec![
            ("containers", Some(containers)),
            ("initContainers", init),
            ("securityContext", context),
            ("serviceAccountName", account),
            ("hostNetwork", network),
        ])
    });
    (metadata, spec).prop_map(|(metadata, spec)| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }))
}

/// The pod without stamps, as text; none if it is rejected.
fn pass(chain: &Chain, pod: &Value) -> Option<String> {
    let mut pod = chain.mutate(pod.clone(), request()).ok()?.pod;
    if let Some(Value::Object(annotations)) = pod.pointer_mut("/metadata/annotations") {
        annotations.retain(|key, _| !key.starts_with("podloom.dev/"));
    }
    Some(pod.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn plugins_that_commute_give_equal_bytes_in_both_orders(pod in pod()) {
        for (names, [one, other]) in pairs() {
            assert_eq!(pass(one, &pod), pass(other, &pod), "{names}: {pod}");
        }
    }
}

/// The others show that pods can differ.
#[test]
fn some_pairs_commute_and_others_do_not() {
    if bundle().is_some() {
        let names: Vec<&str> = pairs().iter().map(|(names, _)| names.as_str()).collect();
        insta::assert_snapshot!(names.join("\n"));
    }
}
