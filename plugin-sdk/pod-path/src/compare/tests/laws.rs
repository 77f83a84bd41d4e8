//! Random pairs of pods.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{check_applied, compare};
use crate::json::is_read_alike;

/// A value of any shape, with few names, so that two of them have much in common.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        "[a-c/~=\\]]{0,2}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c/~]{1,2}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A list whose elements have this key, which are unique in most cases.
fn keyed(key: &'static str) -> impl Strategy<Value = Value> {
    let element = (0..5_u8, prop::option::weighted(0.3, value())).prop_map(move |(name, more)| {
        let mut element = json!({ key: format!("n{name}/") });
        if let Some(more) = more {
            element["more"] = more;
        }
        element
    });
    prop::collection::vec(element, 0..5).prop_map(Value::from)
}

fn container() -> impl Strategy<Value = Value> {
    let lists = (
        prop::option::of(keyed("name")),
        prop::option::of(keyed("mountPath")),
        prop::option::of(value()),
        prop::option::of(value()),
    );
    ("[a-c]", lists).prop_map(|(name, (env, mounts, args, context))| {
        json!({ "name": name, "env": env, "volumeMounts": mounts, "args": args, "securityContext": context })
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let parts = (
        prop::option::of(value()),
        prop::collection::vec(container(), 0..4),
        prop::option::of(keyed("name")),
        prop::option::of(value()),
    );
    parts.prop_map(|(labels, containers, volumes, tolerations)| {
        json!({
            "metadata": { "labels": labels },
            "spec": { "containers": containers, "volumes": volumes, "tolerations": tolerations },
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(512), ..ProptestConfig::default() })]

    #[test]
    fn the_changes_make_the_new_pod_of_the_old_one(old in pod(), new in pod(), salt in any::<u8>()) {
        for splits in [false, true] {
            // Some paths are split, and others not.
            let splits = |path: &str| splits && (path.len() as u8).wrapping_mul(salt) % 3 > 0;
            let changes = compare(&old, &new, &splits);
            check_applied(&old, &new, &changes);
            prop_assert_eq!(changes.is_empty(), is_read_alike(&old, &new));
            for change in &changes {
                prop_assert_ne!(change.old, change.new);
            }
        }
    }
}
