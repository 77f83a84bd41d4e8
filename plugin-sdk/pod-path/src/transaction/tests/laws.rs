//! Laws that hold for all accesses.

mod order;
mod patch;
mod secrecy;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::{Transaction, begin, granted, pod, unrestricted};
use crate::path::push_escaped;
use crate::{Access, Grants};

/// A call that owns its texts.
#[derive(Clone, Debug)]
enum Call {
    Set(String, String),
    Insert(String, String),
    Remove(String),
}

fn make(transaction: &mut Transaction, call: &Call) {
    // Calls may be refused: the laws are about the pod, not about results.
    let _ = match call {
        Call::Set(path, value) => transaction.set(path, value.clone()).map(|()| true),
        Call::Insert(path, value) => transaction.insert(path, value.clone()).map(|()| true),
        Call::Remove(path) => transaction.remove(path),
    };
}

const SEGMENTS: &str = "metadata labels annotations spec containers volumes env name image value tomorrow list app status \
    securityContext capabilities drop 0 1 2 - [name=browser] [name=proxy] [name=new] [image=envoy] [image=new] [name=TZ] \
    [on=true] x";

const CONTAINERS: &str = "0 1 2 - [name=browser] [name=proxy] [name=new] [image=envoy] [image=new]";

const FIELDS: &str = " /name /image /env /env/0 /env/- /env/[name=TZ] /env/[name=TZ]/value /env/[name=TZ]/name /args/0 /args/-";

const PLACES: &str = " /spec /metadata /metadata/labels /metadata/labels/x /metadata/annotations /metadata/annotations/x \
    /spec/containers /spec/volumes /spec/volumes/- /spec/volumes/0 /spec/volumes/[name=new] \
    /spec/securityContext/seccompProfile/type /spec/securityContext /spec/hostNetwork /spec/new/- /spec/new/x \
    /spec/tomorrow/list/1 /spec/tomorrow/list/0";

/// One of the words; the first may be empty.
fn word(words: &'static str) -> impl Strategy<Value = &'static str> {
    select(words.split(' ').collect::<Vec<_>>())
}

/// Paths that often exist.
fn path() -> impl Strategy<Value = String> {
    let joined = |segments: Vec<&str>| {
        segments
            .iter()
            .map(|segment| format!("/{segment}"))
            .collect()
    };
    prop_oneof![
        2 => vec(word(SEGMENTS), 0..6).prop_map(joined),
        4 => (word(CONTAINERS), word(FIELDS)).prop_map(|(container, field)| format!("/spec/containers/{container}{field}")),
        3 => word(PLACES).prop_map(str::to_owned),
    ]
}

/// Values that often have the right type.
fn value() -> impl Strategy<Value = String> {
    select(vec![
        json!({}),
        json!([]),
        json!("x"),
        json!("proxy"),
        json!("new"),
        json!(null),
        json!(true),
        json!(1),
        json!({ "name": "new" }),
        json!({ "name": "proxy" }),
        json!({ "name": "proxy", "image": "envoy" }),
        json!({ "name": "TZ", "value": "x" }),
        json!({ "image": "new" }),
        json!({ "x": "y" }),
        json!(["x"]),
        json!([{ "name": "new" }]),
        json!({ "name": "new", "env": [{ "name": "TZ" }, { "name": "TZ" }] }),
    ])
    .prop_map(|value| value.to_string())
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => (path(), value()).prop_map(|(path, value)| Call::Set(path, value)),
        2 => (path(), value()).prop_map(|(path, value)| Call::Insert(path, value)),
        2 => path().prop_map(Call::Remove),
    ]
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    vec(call(), 0..24)
}

const WRITES: [&str; 10] = [
    "/metadata/labels",
    "/metadata/annotations/x",
    "/spec/containers",
    "/spec/containers/*/env",
    "/spec/containers/*/image",
    "/spec/containers/[name=proxy]",
    "/spec/containers/[name=new]",
    "/spec/containers/[name=browser]/env/[name=TZ]",
    "/spec/volumes/[name=new]",
    "/spec/securityContext/seccompProfile/type",
];

fn grants() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(WRITES.to_vec(), 0..4)
}

/// The rest of a pod after removing everything granted, and then parents that are empty or null.
fn ungranted(mut pod: Value, grants: &[&str]) -> Value {
    for grant in grants {
        let segments: Vec<&str> = grant.split('/').skip(1).collect();
        cut(&mut pod, &segments);
    }
    prune(&mut pod);
    pod
}

/// Removes what a grant covers, without code of the crate. Removed elements become null, so that indices do not shift.
fn cut(value: &mut Value, segments: &[&str]) {
    let Some((first, rest)) = segments.split_first() else {
        *value = Value::Null;
        return;
    };
    match value {
        Value::Object(fields) => fields.get_mut(*first).map_or((), |field| cut(field, rest)),
        Value::Array(list) => {
            for element in list {
                let named = match first
                    .strip_prefix("[")
                    .and_then(|rest| rest.strip_suffix("]"))
                {
                    Some(selector) => {
                        let (key, value) = selector.split_once('=').unwrap();
                        element.get(key) == Some(&json!(value))
                    }
                    None => *first == "*",
                };
                if named {
                    cut(element, rest);
                }
            }
        }
        _ => {}
    }
}

/// Drops nulls and empty values everywhere.
fn prune(value: &mut Value) {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Array(list) => {
            list.iter_mut().for_each(prune);
            list.retain(|element| !is_nothing(element));
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, field| !is_nothing(field));
        }
        _ => {}
    }
}

/// How many containers have each name.
fn names(pod: &Value, name: &str) -> usize {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    containers
        .into_iter()
        .flatten()
        .filter(|container| container.get("name") == Some(&json!(name)))
        .count()
}

/// Undoes writes with the audit alone.
fn revert(pod: &mut Value, writes: &[crate::Write]) {
    for write in writes.iter().rev() {
        let mut transaction =
            Transaction::begin(pod.take(), Access::unrestricted().into(), [].into());
        match &write.old {
            Some(old) => transaction.set(&write.path, old.to_string()).unwrap(),
            None => drop(transaction.remove(&write.path).unwrap()),
        }
        (*pod, _) = transaction.commit();
    }
}

/// Whether a path selects an element by a key and then leads into that key.
fn renames(path: &str, key: &str) -> bool {
    path.rsplit_once('/')
        .is_some_and(|(before, last)| last == key && before.contains(&format!("[{key}=")))
}

proptest! {
    #[test]
    fn rollback_restores_the_pod(calls in calls()) {
        let mut transaction = unrestricted();
        calls.iter().for_each(|call| make(&mut transaction, call));
        assert_eq!(transaction.rollback().to_string(), pod().to_string());
    }

    #[test]
    fn a_set_value_can_be_read(before in calls(), path in path(), value in value()) {
        let mut transaction = unrestricted();
        before.iter().for_each(|call| make(&mut transaction, call));
        // `-`, or a selector whose key was just written, names another element afterwards.
        let lasts = !path.ends_with('-') && !["name", "image", "on"].iter().any(|key| renames(&path, key));
        if transaction.set(&path, value.clone()).is_ok() && lasts {
            let got = transaction.get(&path).unwrap().unwrap_or_else(|| "null".to_owned());
            let (got, mut set): (Value, Value) = (serde_json::from_str(&got).unwrap(), serde_json::from_str(&value).unwrap());
            // A selector at the end sets its field.
            if let (Some(got), Some(set)) = (got.as_object(), set.as_object_mut()) {
                let filled = got.iter().filter(|(key, _)| !set.contains_key(*key));
                let filled: Vec<_> = filled.map(|(key, value)| (key.clone(), value.clone())).collect();
                assert!(filled.is_empty() || path.ends_with(']') && filled.len() == 1);
                set.extend(filled);
            }
            assert_eq!(got, set);
        }
    }

    #[test]
    fn nothing_outside_the_grants_changes(grants in grants(), calls in calls()) {
        let mut transaction = granted(&[""], &grants);
        calls.iter().for_each(|call| make(&mut transaction, call));
        let (after, _) = transaction.commit();
        assert_eq!(ungranted(after.clone(), &grants), ungranted(pod(), &grants));
        if !grants.contains(&"/spec/containers") {
            assert!(["new", "proxy"].iter().all(|name| names(&after, name) <= 1));
        }
    }

    #[test]
    fn protected_paths_do_not_change(calls in calls()) {
        let mut transaction = unrestricted();
        calls.iter().for_each(|call| make(&mut transaction, call));
        let (after, _) = transaction.commit();
        for path in ["/apiVersion", "/kind", "/status", "/metadata/name", "/metadata/labels/app", "/metadata/labels/selenosis.io~1browser"] {
            assert_eq!(after.pointer(path), pod().pointer(path), "{path}");
        }
    }

    #[test]
    fn a_grant_that_covers_another_allows_what_it_allows(
        wide in select(WRITES.to_vec()), narrow in select(WRITES.to_vec()), before in calls(), last in call(),
    ) {
        let (wide_grants, narrow_grants) = (Grants::parse(&[wide]).unwrap(), Grants::parse(&[narrow]).unwrap());
        if wide_grants.covers(&narrow_grants).is_ok() {
            let mut first = unrestricted();
            before.iter().for_each(|call| make(&mut first, call));
            let (pod, _) = first.commit();
            let run = |grants: Grants| {
                let access = Access::new(Grants::parse(&[""]).unwrap(), grants);
                let mut transaction = Transaction::begin(pod.clone(), access.into(), [].into());
                make(&mut transaction, &last);
                (transaction.refused_writes(), transaction.commit())
            };
            let (refused, narrow) = run(narrow_grants);
            if refused == 0 {
                assert_eq!(run(wide_grants), (0, narrow));
            }
        }
    }

    /// Except for created parents and the index of a restored element, which the audit does not have.
    /// The grants keep keys unchanged, since a path names an element by the key that it had before the write.
    #[test]
    fn undoing_the_audit_backwards_restores_the_pod(calls in calls()) {
        let grants = [
            "/metadata/labels", "/metadata/annotations", "/spec/hostNetwork", "/spec/securityContext", "/spec/new",
            "/spec/containers/*/image", "/spec/containers/*/env/[name=TZ]", "/spec/volumes/[name=new]",
        ];
        let mut transaction = granted(&[""], &grants);
        calls.iter().for_each(|call| make(&mut transaction, call));
        let (mut after, writes) = transaction.commit();
        revert(&mut after, &writes);
        let mut before = pod();
        for pod in [&mut before, &mut after] {
            prune(pod);
            if let Some(Value::Array(env)) = pod.pointer_mut("/spec/containers/1/env") {
                env.sort_by_key(Value::to_string);
            }
        }
        assert_eq!(after, before);
    }

    #[test]
    fn odd_paths_and_values_do_no_harm(path in odd_path(), value in any::<String>(), grants in grants()) {
        for mut transaction in [granted(&[], &grants), begin(Access::unrestricted())] {
            let _ = transaction.get(&path);
            let _ = transaction.keys(&path);
            make(&mut transaction, &Call::Insert(path.clone(), value.clone()));
            make(&mut transaction, &Call::Set(path.clone(), value.clone()));
            make(&mut transaction, &Call::Remove(path.clone()));
            assert_eq!(transaction.rollback(), pod());
        }
        let _ = Grants::parse_writes(&[&path]);
    }

    #[test]
    fn any_key_can_be_written(key in any::<String>()) {
        let mut path = "/metadata/annotations/".to_owned();
        push_escaped(&mut path, &key);
        let mut transaction = unrestricted();
        if transaction.set(&path, "\"x\"".to_owned()).is_ok() {
            assert_eq!(transaction.keys("/metadata/annotations").unwrap(), [key]);
        }
    }
}

fn odd_path() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        any::<String>(),
        "[-~0-9\\[\\]=a*/]{0,6}",
        select(vec![
            "spec",
            "containers",
            "0",
            "tomorrow",
            "list",
            "-",
            "[name=proxy]"
        ])
        .prop_map(str::to_owned),
    ];
    prop_oneof![
        any::<String>(),
        vec(segment, 0..6).prop_map(|segments| segments
            .iter()
            .map(|segment| format!("/{segment}"))
            .collect()),
        Just(String::new()),
    ]
}
