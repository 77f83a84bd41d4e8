//! Laws that hold for all templates, with a small model of how IM merges them.

use proptest::prelude::*;

use super::*;

/// IM's merge: objects key by key, lists by index, and null is nothing.
fn merge(kept: &mut Value, sent: &Value) {
    match (kept, sent) {
        (_, Value::Null) => {}
        (Value::Object(kept), Value::Object(sent)) => {
            for (name, value) in sent {
                merge(kept.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(kept), Value::Array(sent)) => {
            for (index, value) in sent.iter().enumerate() {
                match kept.get_mut(index) {
                    Some(kept) => merge(kept, value),
                    None => kept.push(value.clone()),
                }
            }
        }
        (kept, sent) => *kept = sent.clone(),
    }
}

const KEYS: [&str; 16] = [
    "topology_template",
    "node_templates",
    "node_types",
    "outputs",
    "inputs",
    "metadata",
    "description",
    "capabilities",
    "scalable",
    "properties",
    "count",
    "derived_from",
    "type",
    "imports",
    "a",
    "b",
];

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4_u8).prop_map(Value::from),
        prop::sample::select(&["a", "b", "tosca.nodes.Compute", "file:x", ".."])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        let keys = prop::sample::select(&KEYS).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys, inner, 0..5)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// Templates with nodes that are machines, and much that is not.
fn templates() -> impl Strategy<Value = Value> {
    let machine = values().prop_map(
        |capabilities| json!({ "type": "tosca.nodes.Compute", "capabilities": capabilities }),
    );
    let nodes = prop::collection::btree_map("[a-c]", prop_oneof![machine, values()], 0..3);
    (nodes, values(), values()).prop_map(|(nodes, outputs, rest)| {
        let topology = json!({
            "node_templates": nodes.into_iter().collect::<serde_json::Map<_, _>>(),
            "outputs": outputs,
        });
        json!({ "topology_template": topology, "metadata": rest })
    })
}

fn pairs() -> impl Strategy<Value = (Value, Value)> {
    prop_oneof![(values(), values()), (templates(), templates())]
        .prop_map(|(applied, wanted)| (canonical(&applied), canonical(&wanted)))
}

/// Where the merged template has something that was not sent, or something else. This knows nothing of what `compare` knows.
fn leftovers(merged: &Value, sent: &Value, path: &str, found: &mut Vec<String>) {
    match (merged, sent) {
        (Value::Object(merged), Value::Object(sent)) => {
            for name in sent.keys() {
                assert!(merged.contains_key(name), "{path}/{name} is lost");
            }
            for (name, value) in merged {
                let path = format!("{path}/{name}");
                match sent.get(name) {
                    Some(sent) => leftovers(value, sent, &path, found),
                    None => found.push(path),
                }
            }
        }
        (Value::Array(merged), Value::Array(sent)) if merged.len() == sent.len() => {
            for (index, (merged, sent)) in merged.iter().zip(sent).enumerate() {
                leftovers(merged, sent, &format!("{path}/{index}"), found);
            }
        }
        (merged, sent) if merged == sent => {}
        _ => found.push(path.to_owned()),
    }
}

fn may_stay(path: &str) -> bool {
    let is_unread = |part: &str| path.split('/').any(|it| it == part);
    is_unread("inputs")
        || is_unread("outputs")
        || is_unread("metadata")
        || path.ends_with("/description")
        || path.ends_with("/scalable/properties/removal_list")
}

/// Numbers that every parser reads exactly; serde_json is off by the last bit for others.
fn exact_floats() -> impl Strategy<Value = f64> {
    any::<i32>().prop_map(|number| f64::from(number) / 16.0)
}

proptest! {
    #[test]
    fn the_canonical_form_is_its_own(value in values()) {
        let once = canonical(&value);
        prop_assert_eq!(canonical(&once), once);
    }

    #[test]
    fn every_value_is_the_same_as_itself(value in prop_oneof![values(), templates()]) {
        let value = canonical(&value);
        let retired = ["a", "b", "c"].map(str::to_owned).into();
        prop_assert_eq!(compare(&value, &value, &retired), Comparison::Same);
    }

    /// What is reported as applied is what IM has then, machines without instances aside, and what may stay.
    #[test]
    fn merging_what_is_sent_gives_what_is_wanted((applied, wanted) in pairs()) {
        if let Comparison::Update { sent, retired } = compare(&applied, &wanted, &BTreeSet::new()) {
            let mut merged = applied.clone();
            merge(&mut merged, &sent);
            let mut found = Vec::new();
            leftovers(&merged, &sent, "", &mut found);
            found.retain(|path| !may_stay(path));
            prop_assert_eq!(found, Vec::<String>::new());
            // Without the machines that are gone, it is what is wanted.
            let mut rest = sent.clone();
            let nodes = rest.pointer_mut("/topology_template/node_templates");
            if let Some(nodes) = nodes.and_then(Value::as_object_mut) {
                nodes.retain(|name, _| !retired.contains(name));
            }
            let mut found = Vec::new();
            leftovers(&rest, &wanted, "", &mut found);
            found.retain(|path| !may_stay(path) && path != "/topology_template/node_templates");
            prop_assert_eq!(found, Vec::<String>::new());
            // The next comparison finds nothing more to send.
            prop_assert_eq!(compare(&wanted, &wanted, &BTreeSet::new()), Comparison::Same);
        }
    }

    #[test]
    fn nothing_panics(value in values(), other in values(), name in ".{0,8}") {
        let _ = check(&value, false);
        let _ = compare(&value, &other, &BTreeSet::from([name.clone()]));
        let sent: Result<Value, _> = serde_json::from_str(&to_send(&value, &name));
        prop_assert!(sent.is_ok());
    }

    /// The text is the same to a parser of JSON.
    #[test]
    fn what_is_written_is_what_was_meant(text in ".{0,20}", number in exact_floats(), whole in any::<i64>()) {
        let value = json!({ "text": text, "number": number, "whole": whole, &text: 1 });
        let read: Value = serde_json::from_str(&super::super::of(&value)).unwrap();
        prop_assert_eq!(read, value);
    }
}
