//! Which targets of Cleaners the API server stores: those that mean certain objects, in one way.

use podloom_api::Cleaner;
use podloom_tests::{Cluster, Scene, Specs, blackbox_on, with};
use serde_json::{Value, json};

/// A spec with these targets.
fn with_targets(targets: &[Value]) -> Value {
    json!({ "ttl": "1h", "targets": targets })
}

/// A spec with one target that has this reference.
fn with_reference(reference: &Value) -> Value {
    with_targets(&[json!({ "name": "pods", "reference": reference })])
}

/// A spec with a reference to a Pod, or several, with these fields.
fn with_pod(fields: &Value) -> Value {
    let mut reference = json!({ "version": "v1", "kind": "Pod" });
    let fields = fields.as_object().unwrap().clone();
    reference.as_object_mut().unwrap().extend(fields);
    with_reference(&reference)
}

/// A spec with a reference to a Pod by its name, whose group and version are in one field.
fn with_api_version(value: &str) -> Value {
    with_reference(&json!({ "apiVersion": value, "kind": "Pod", "name": "a" }))
}

/// A target of this name.
fn named(name: &str) -> Value {
    json!({ "name": name, "reference": { "version": "v1", "kind": "Pod", "name": "a" } })
}

fn with_name(name: &str) -> Value {
    with_targets(&[named(name)])
}

fn cleaners(scene: &Scene) -> Specs {
    Specs::of(scene, &Cleaner::resource())
}

#[test]
fn a_target_has_a_name_that_conditions_can_use() {
    blackbox_on(Cluster::without_operator, "cleaner-names", async |scene| {
        let cleaners = cleaners(&scene);
        let field = "spec.targets[0].name";
        let long = "x".repeat(64);
        let bad = ["", "my-pods", "1st", "a.b", "a b", "é", "pods\n", &long];
        let reserved = [
            "time",
            "in",
            "true",
            "null",
            "namespace",
            "while",
            "int",
            "null_type",
            "timestamp",
            "duration",
        ];
        for name in bad {
            cleaners.rejected(vec![(field, with_name(name))]).await;
        }
        for name in reserved {
            assert!(!podloom_api::is_variable_name(name));
            let message = "this name means something else in conditions";
            cleaners
                .rejected(vec![(field, with_name(name)), (message, with_name(name))])
                .await;
        }
        let good = ["p", "_", "Pods2", "Time", "in_", "timestamps", &long[1..]];
        cleaners.accepted(good.map(with_name).to_vec()).await;
        let twice = with_targets(&["a", "b", "a"].map(named));
        let distinct = with_targets(&["a", "b", "A"].map(named));
        cleaners.rejected(vec![("spec.targets[2]", twice)]).await;
        cleaners.accepted(vec![distinct]).await;
    });
}

#[test]
fn a_reference_has_a_name_or_labels() {
    blackbox_on(Cluster::without_operator, "cleaner-refs", async |scene| {
        let cleaners = cleaners(&scene);
        let labels = json!({ "app": "shop" });
        let selector = json!({ "matchLabels": labels });
        let message = "give exactly one of name, matchLabels and labelSelector";
        for bad in [
            json!({}),
            json!({ "name": null }),
            json!({ "name": "a", "matchLabels": labels }),
            json!({ "name": "a", "labelSelector": selector }),
            json!({ "matchLabels": labels, "labelSelector": selector }),
            json!({ "name": "a", "matchLabels": labels, "labelSelector": selector }),
        ] {
            let cases = [message, "spec.targets[0].reference"];
            let cases = cases.map(|text| (text, with_pod(&bad)));
            cleaners.rejected(cases.to_vec()).await;
        }
        let good = [
            json!({ "name": "a" }),
            json!({ "matchLabels": labels }),
            json!({ "labelSelector": selector }),
            // What a template left empty is as if it was not there.
            json!({ "name": "a", "matchLabels": null }),
        ];
        cleaners
            .accepted(good.each_ref().map(with_pod).to_vec())
            .await;
    });
}

#[test]
fn a_reference_has_a_version_in_one_field() {
    blackbox_on(Cluster::without_operator, "cleaner-groups", async |scene| {
        let cleaners = cleaners(&scene);
        let version = "give exactly one of version and apiVersion";
        let group = "give apiGroup and version, or apiVersion instead of both";
        let neither = json!({ "kind": "Pod", "name": "a" });
        let both = json!({ "name": "a", "apiVersion": "v1" });
        let twice =
            json!({ "apiGroup": "apps", "apiVersion": "apps/v1", "kind": "Pod", "name": "a" });
        cleaners
            .rejected(vec![
                (version, with_reference(&neither)),
                (version, with_pod(&both)),
                (group, with_reference(&twice)),
            ])
            .await;
        cleaners
            .accepted(vec![
                with_pod(&json!({ "name": "a" })),
                with_pod(&json!({ "name": "a", "apiGroup": "" })),
                with_pod(&json!({ "name": "a", "apiGroup": "apps" })),
                with_api_version("v1"),
                with_api_version("apps/v1"),
            ])
            .await;
        let field = "spec.targets[0].reference.apiVersion";
        let bad = ["", "/", "/v1", "apps/", "a/v1/b", "Apps/v1", "a/V1", "1"];
        let bad = bad.map(|value| (field, with_api_version(value)));
        cleaners.rejected(bad.to_vec()).await;
        let good = ["v1", "serving.knative.dev/v1", "apps/v1beta1"];
        cleaners.accepted(good.map(with_api_version).to_vec()).await;
    });
}

#[test]
fn a_reference_has_names_that_an_api_server_can_know() {
    blackbox_on(Cluster::without_operator, "cleaner-kinds", async |scene| {
        let cleaners = cleaners(&scene);
        let reference = |field: &str, value: &str| {
            let pod = with_pod(&json!({ "name": "a" }));
            let pointer = format!("/targets/0/reference/{field}");
            with(pod, &pointer, value.into())
        };
        let long = "x".repeat(254);
        for (field, bad, good) in [
            (
                "apiGroup",
                vec!["Apps", "apps/v1", "a..b", ".a", "a_b", &long],
                vec!["a", "serving.knative.dev", &long[1..]],
            ),
            (
                "version",
                vec!["", "V1", "1", "v1/", "v1.2", "v-", &long[..64]],
                vec!["v1", "v1alpha", "v2-beta", &long[..63]],
            ),
            (
                "kind",
                vec!["", "1Pod", "Pod/a", "Pod.apps", "Po d", "Pod-", &long[..64]],
                vec!["pod", "POD", "Pod", "pipeline-run", &long[..63]],
            ),
            (
                "name",
                vec!["", "a/b", "..", ".", "a%2f", "../a", &long],
                vec!["a", "...", "..a", ".a", "system:node", "A_b", &long[1..]],
            ),
        ] {
            let path = format!("spec.targets[0].reference.{field}");
            let bad = bad.into_iter();
            let bad = bad.map(|value| (path.as_str(), reference(field, value)));
            cleaners.rejected(bad.collect()).await;
            let good = good.into_iter().map(|value| reference(field, value));
            cleaners.accepted(good.collect()).await;
        }
        let place = "spec.targets[0].reference";
        let kind = "spec.targets[0].reference.kind";
        let without = with_reference(&json!({ "version": "v1", "name": "a" }));
        let nothing = with_targets(&[json!({ "name": "pods" })]);
        cleaners
            .rejected(vec![(kind, without), (place, nothing)])
            .await;
    });
}

/// So many labels, each with this value.
fn labels(count: usize, value: &str) -> Value {
    let labels = (0..count).map(|number| (format!("l{number}"), value.into()));
    Value::Object(labels.collect())
}

#[test]
fn labels_have_bounds_but_no_pattern() {
    blackbox_on(Cluster::without_operator, "cleaner-labels", async |scene| {
        let cleaners = cleaners(&scene);
        let long = "v".repeat(64);
        let place = "spec.targets[0].reference";
        for bad in [labels(65, "v"), labels(1, &long)] {
            let selector = json!({ "labelSelector": { "matchLabels": bad } });
            let labels = json!({ "matchLabels": bad });
            let cases = [&selector, &labels].map(|fields| (place, with_pod(fields)));
            cleaners.rejected(cases.to_vec()).await;
        }
        let placeholder = json!({ "example.com/proxy": "<no value of a label>" });
        for good in [labels(64, &long[1..]), placeholder] {
            let selector = json!({ "labelSelector": { "matchLabels": good } });
            let labels = json!({ "matchLabels": good });
            let specs = [&selector, &labels].map(with_pod);
            cleaners.accepted(specs.to_vec()).await;
        }
    });
}

#[test]
fn requirements_have_an_operator_and_the_values_that_it_needs() {
    let name = "cleaner-selectors";
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let cleaners = cleaners(&scene);
        let with = |requirement: &Value| {
            with_pod(&json!({ "labelSelector": { "matchExpressions": [requirement] } }))
        };
        let place = "spec.targets[0].reference.labelSelector.matchExpressions[0]";
        let key = format!("{place}.key");
        let operator = format!("{place}.operator");
        let values = "In and NotIn need values, Exists and DoesNotExist have none";
        let long = "k".repeat(318);
        let many =
            |count: usize| json!({ "key": "k", "operator": "In", "values": vec!["v"; count] });
        for (text, bad) in [
            (key.as_str(), json!({ "operator": "Exists" })),
            (&key, json!({ "key": "", "operator": "Exists" })),
            (&key, json!({ "key": long, "operator": "Exists" })),
            (&operator, json!({ "key": "k" })),
            (
                &operator,
                json!({ "key": "k", "operator": "in", "values": ["v"] }),
            ),
            (values, json!({ "key": "k", "operator": "In" })),
            (
                values,
                json!({ "key": "k", "operator": "NotIn", "values": [] }),
            ),
            (
                values,
                json!({ "key": "k", "operator": "Exists", "values": ["v"] }),
            ),
            (
                place,
                json!({ "key": "k", "operator": "DoesNotExist", "values": ["v"] }),
            ),
            (
                place,
                json!({ "key": "k", "operator": "In", "values": [long[..64]] }),
            ),
            (place, many(65)),
        ] {
            cleaners.rejected(vec![(text, with(&bad))]).await;
        }
        let good = [
            many(64),
            json!({ "key": long[1..], "operator": "NotIn", "values": [long[..63]] }),
            json!({ "key": "k", "operator": "Exists" }),
            json!({ "key": "k", "operator": "DoesNotExist", "values": [] }),
        ];
        cleaners.accepted(good.each_ref().map(with).to_vec()).await;
    });
}

/// An empty selector selects everything: to look at that is fine, to delete it is not.
#[test]
fn nothing_is_deleted_by_an_empty_selector() {
    blackbox_on(Cluster::without_operator, "cleaner-empty", async |scene| {
        let cleaners = cleaners(&scene);
        let target = |field: &str, selector: Value, delete: bool| {
            let reference = json!({ "version": "v1", "kind": "Pod", field: selector });
            let target = json!({ "name": "pods", "delete": delete, "reference": reference });
            with_targets(&[target])
        };
        let message = "an empty selector would delete all objects of this kind";
        for (field, empty) in [
            ("matchLabels", json!({})),
            ("labelSelector", json!({})),
            ("labelSelector", json!({ "matchLabels": {} })),
            ("labelSelector", json!({ "matchExpressions": [] })),
            (
                "labelSelector",
                json!({ "matchLabels": {}, "matchExpressions": [] }),
            ),
            (
                "labelSelector",
                json!({ "matchLabels": null, "matchExpressions": null }),
            ),
        ] {
            let deleted = target(field, empty.clone(), true);
            let cases = vec![(message, deleted.clone()), ("spec.targets[0]", deleted)];
            cleaners.rejected(cases).await;
            cleaners.accepted(vec![target(field, empty, false)]).await;
        }
        let exists = json!([{ "key": "k", "operator": "Exists" }]);
        cleaners
            .accepted(vec![
                target("name", json!("a"), true),
                target("matchLabels", json!({ "app": "shop" }), true),
                target(
                    "labelSelector",
                    json!({ "matchLabels": { "app": "shop" } }),
                    true,
                ),
                target("labelSelector", json!({ "matchExpressions": exists }), true),
            ])
            .await;
    });
}
