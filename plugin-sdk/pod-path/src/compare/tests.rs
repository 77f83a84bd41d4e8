//! Each case is two pods and the changes between them; and a law: the changes make the new pod of the old one.

mod elements;
mod laws;

use serde_json::{Value, json};

use super::{ChangeKind, PodChange, compare};
use crate::json::is_read_alike;
use crate::path::{ListSegment, segments, unescape};

/// The sign and the path of each change.
fn told(changes: &[PodChange<'_>]) -> Vec<String> {
    let told = changes.iter().map(|change| {
        let sign = match change.kind {
            ChangeKind::Added => '+',
            ChangeKind::Removed => '-',
            ChangeKind::Changed => '~',
            ChangeKind::Reordered => '%',
        };
        format!("{sign} {}", change.path)
    });
    told.collect()
}

#[track_caller]
fn check(old: &Value, new: &Value, expected: &[&str]) {
    let changes = compare(old, new, &|_| false);
    assert_eq!(told(&changes), expected);
    check_applied(old, new, &changes);
}

/// As if there were writes below all these paths.
#[track_caller]
fn check_split(old: &Value, new: &Value, written: &[&str], expected: &[&str]) {
    let splits = |path: &str| {
        let mut written = written.iter();
        written.any(|it| {
            it.strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let changes = compare(old, new, &splits);
    assert_eq!(told(&changes), expected);
    check_applied(old, new, &changes);
}

#[track_caller]
fn check_applied(old: &Value, new: &Value, changes: &[PodChange<'_>]) {
    let mut made = old.clone();
    for change in changes {
        apply(&mut made, change);
    }
    assert!(
        is_read_alike(&made, new),
        "{:?} makes of\n{old}\nthis:\n{made}\ninstead of:\n{new}",
        told(changes)
    );
}

/// Makes one change, the way this page says that it is meant.
fn apply(pod: &mut Value, change: &PodChange<'_>) {
    let segments: Vec<&str> = segments(&change.path).collect();
    match (change.kind, change.new) {
        (ChangeKind::Removed, _) => {
            remove(pod, &segments);
            for parents in 1..=change.parents {
                let above = &segments[..segments.len() - parents];
                match find(pod, above) {
                    Some(Value::Object(fields)) if fields.values().all(Value::is_null) => {}
                    Some(Value::Array(elements)) if elements.is_empty() => {}
                    _ => break,
                }
                remove(pod, above);
            }
        }
        (ChangeKind::Reordered, Some(Value::Array(order))) => {
            let list = find(pod, &segments).and_then(Value::as_array_mut).unwrap();
            let place = |element: &Value| {
                let keys = ["name", "containerPort", "mountPath", "topologyKey"];
                let key = keys
                    .iter()
                    .find(|key| element.get(**key).is_some())
                    .unwrap();
                order
                    .iter()
                    .position(|it| it.get(*key) == element.get(*key))
            };
            list.sort_by_key(|element| place(element).unwrap());
        }
        (_, Some(new)) => put(pod, &segments, new.clone()),
        (_, None) => panic!("{change:?}"),
    }
}

fn index_of(list: &[Value], segment: &str) -> Option<usize> {
    match ListSegment::parse(segment).unwrap() {
        ListSegment::Index(index) => Some(index),
        ListSegment::End => None,
        ListSegment::Selector(selector) => list.iter().position(|it| selector.matches(it)),
    }
}

fn find<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, segment| match value {
        Value::Object(fields) => fields.get_mut(&*unescape(segment)),
        Value::Array(list) => index_of(list, segment).and_then(|index| list.get_mut(index)),
        _ => None,
    })
}

fn remove(pod: &mut Value, path: &[&str]) {
    let (last, above) = path.split_last().unwrap();
    match find(pod, above).unwrap() {
        Value::Object(fields) => drop(fields.remove(&*unescape(last)).unwrap()),
        Value::Array(list) => drop(list.remove(index_of(list, last).unwrap())),
        other => panic!("{other}"),
    }
}

fn put(value: &mut Value, path: &[&str], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    let is_element = ListSegment::is_meant(first);
    if value.is_null() {
        *value = if is_element { json!([]) } else { json!({}) };
    }
    match value {
        Value::Array(list) => match index_of(list, first) {
            Some(index) => put(&mut list[index], rest, new),
            None => {
                assert!(rest.is_empty(), "only a whole element can be appended");
                list.push(new);
            }
        },
        Value::Object(fields) => {
            let field = fields.entry(unescape(first)).or_insert(Value::Null);
            put(field, rest, new);
        }
        other => panic!("{other}"),
    }
}

fn container(more: Value) -> Value {
    let mut container = json!({ "name": "a" });
    let Value::Object(more) = more else { panic!() };
    container.as_object_mut().unwrap().extend(more);
    json!({ "spec": { "containers": [container] } })
}

#[test]
fn the_same_pod_has_no_changes() {
    let pod = container(json!({ "env": [{ "name": "TZ", "value": "UTC" }], "args": ["x", null] }));
    check(&pod, &pod.clone(), &[]);
}

#[test]
fn a_null_field_is_an_absent_one() {
    let null = json!({ "metadata": { "labels": null }, "spec": { "volumes": [{ "name": "v", "emptyDir": { "medium": null } }] } });
    let absent =
        json!({ "metadata": {}, "spec": { "volumes": [{ "name": "v", "emptyDir": {} }] } });
    check(&null, &absent, &[]);
    check(&absent, &null, &[]);
    let tolerations = |value: Value| json!({ "spec": { "tolerations": [{ "key": "a", "value": value }, { "key": "b" }] } });
    check(
        &tolerations(Value::Null),
        &json!({ "spec": { "tolerations": [{ "key": "a" }, { "key": "b" }] } }),
        &[],
    );
    check(
        &json!({ "spec": null }),
        &json!({ "spec": {} }),
        &["+ /spec"],
    );
}

#[test]
fn an_empty_value_is_not_an_absent_one() {
    let none = json!({ "spec": {} });
    for empty in [json!({}), json!([])] {
        let some = json!({ "spec": { "securityContext": empty } });
        check(&none, &some, &["+ /spec/securityContext"]);
        check(&some, &none, &["- /spec/securityContext"]);
    }
}

#[test]
fn a_null_element_is_an_element() {
    let [null, one] = [Value::Null, json!("x")].map(|it| container(json!({ "args": ["a", it] })));
    check(&null, &one, &["~ /spec/containers/[name=a]/args/1"]);
    check(&one, &null, &["~ /spec/containers/[name=a]/args/1"]);
}

#[test]
fn values_of_other_types_are_changed() {
    for (old, new) in [
        (json!("1"), json!(1)),
        (json!(1), json!(1.0)),
        (json!({}), json!([])),
        (json!(false), json!("false")),
        (json!([1]), json!(1)),
    ] {
        let [old, new] = [old, new].map(|it| json!({ "spec": { "tomorrow": it } }));
        check(&old, &new, &["~ /spec/tomorrow"]);
    }
}

#[test]
fn elements_are_named_by_their_merge_key() {
    let env = |list: Value| container(json!({ "env": list }));
    let (tz, a, odd) = (
        json!({ "name": "TZ", "value": "UTC" }),
        json!({ "name": "A", "value": "1" }),
        json!({ "name": "a]=/b~", "value": "1" }),
    );
    check(
        &env(json!([tz])),
        &env(json!([tz, a])),
        &["+ /spec/containers/[name=a]/env/[name=A]"],
    );
    check(
        &env(json!([tz, a])),
        &env(json!([a])),
        &["- /spec/containers/[name=a]/env/[name=TZ]"],
    );
    check(
        &env(json!([odd])),
        &env(json!([{ "name": "a]=/b~", "value": "2" }])),
        &["~ /spec/containers/[name=a]/env/[name=a]=~1b~0]/value"],
    );
    let mount = |read_only: bool| {
        container(
            json!({ "volumeMounts": [{ "name": "x", "mountPath": "/data", "readOnly": read_only }] }),
        )
    };
    check(
        &mount(true),
        &mount(false),
        &["~ /spec/containers/[name=a]/volumeMounts/[mountPath=~1data]/readOnly"],
    );
}

/// The order of variables decides what `$(NAME)` means, and that of init containers when they start.
#[test]
fn another_order_of_elements_is_a_change() {
    let env = |names: &[&str]| {
        let list: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        container(json!({ "env": list }))
    };
    let list = "/spec/containers/[name=a]/env";
    let order = format!("% {list}");
    check(&env(&["a", "b", "c"]), &env(&["c", "a", "b"]), &[&order]);
    check(
        &env(&["a", "b"]),
        &env(&["x", "a", "b"]),
        &[&format!("+ {list}/[name=x]"), &order],
    );
    check(
        &env(&["a", "b", "c"]),
        &env(&["a", "c"]),
        &[&format!("- {list}/[name=b]")],
    );
    check(
        &env(&["a", "b", "c"]),
        &env(&["c", "x", "a"]),
        &[
            &format!("- {list}/[name=b]"),
            &format!("+ {list}/[name=x]"),
            &order,
        ],
    );
}

#[test]
fn a_list_without_names_is_compared_by_position() {
    let args = |list: Value| container(json!({ "args": list }));
    let path = "/spec/containers/[name=a]/args";
    check(
        &args(json!(["a"])),
        &args(json!(["a", "b", "c"])),
        &[&format!("+ {path}/-"), &format!("+ {path}/-")],
    );
    check(
        &args(json!(["a", "b"])),
        &args(json!(["a", "x"])),
        &[&format!("~ {path}/1")],
    );
    for (old, new) in [
        (json!(["a", "b"]), json!(["a"])),
        (json!(["a", "b"]), json!(["b", "a"])),
        (json!(["a", "b"]), json!(["x", "a", "b"])),
        (json!(["a", "b"]), json!([])),
        (
            json!([1, 2, 3, 4, 5, 6, 7, 8, 9]),
            json!([11, 12, 13, 14, 15, 16, 17, 18, 19]),
        ),
    ] {
        check(&args(old), &args(new), &[&format!("~ {path}")]);
    }
    let tolerations = |effect: &str| json!({ "spec": { "tolerations": [{ "key": "a" }, { "key": "b", "effect": effect }] } });
    check(
        &tolerations("NoSchedule"),
        &tolerations("NoExecute"),
        &["~ /spec/tolerations/1/effect"],
    );
}

/// Two ports may have the same number; then they are no keys.
#[test]
fn elements_without_a_unique_key_are_compared_by_position() {
    let ports = |list: Value| container(json!({ "ports": list }));
    let path = "/spec/containers/[name=a]/ports";
    let twice = json!([{ "containerPort": 53 }, { "containerPort": 53, "protocol": "UDP" }]);
    let other = json!([{ "containerPort": 53 }, { "containerPort": 53, "protocol": "SCTP" }]);
    check(
        &ports(twice.clone()),
        &ports(other),
        &[&format!("~ {path}/1/protocol")],
    );
    let once = json!([{ "containerPort": 53 }]);
    check(
        &ports(once.clone()),
        &ports(twice.clone()),
        &[&format!("+ {path}/-")],
    );
    check(&ports(twice), &ports(once.clone()), &[&format!("~ {path}")]);
    check(
        &ports(once.clone()),
        &ports(json!([{ "containerPort": 54 }])),
        &[
            &format!("- {path}/[containerPort=53]"),
            &format!("+ {path}/[containerPort=54]"),
        ],
    );
    check(
        &ports(once.clone()),
        &ports(json!([{ "protocol": "UDP" }])),
        &[
            &format!("- {path}/0/containerPort"),
            &format!("+ {path}/0/protocol"),
        ],
    );
    check(
        &ports(once),
        &ports(json!(["odd"])),
        &[&format!("~ {path}/0")],
    );
}

/// What one plugin wrote into many pods is the same change in each, whatever else a pod has.
#[test]
fn what_was_written_field_by_field_is_told_so() {
    let bare = json!({ "metadata": {}, "spec": {} });
    let labelled = json!({ "metadata": { "labels": { "team": "a", "tier": "b" } }, "spec": {} });
    let label = &["/metadata/labels/team"][..];
    check(&bare, &labelled, &["+ /metadata/labels"]);
    check_split(
        &bare,
        &labelled,
        label,
        &["+ /metadata/labels/team", "+ /metadata/labels/tier"],
    );
    // Removing the last one removes the parents that were made for it.
    check_split(
        &labelled,
        &bare,
        label,
        &["- /metadata/labels/team", "- /metadata/labels/tier"],
    );
    check_split(
        &json!({}),
        &labelled,
        label,
        &[
            "+ /metadata/labels/team",
            "+ /metadata/labels/tier",
            "+ /spec",
        ],
    );
    check_split(
        &labelled,
        &json!({}),
        label,
        &[
            "- /metadata/labels/team",
            "- /metadata/labels/tier",
            "- /spec",
        ],
    );
}

#[test]
fn lists_and_empty_values_are_split_too() {
    let bare = json!({ "metadata": {}, "spec": {} });
    let labelled = json!({ "metadata": { "labels": { "team": "a", "tier": "b" } }, "spec": {} });
    let label = &["/metadata/labels/team"][..];
    let volume = json!({ "metadata": {}, "spec": { "volumes": [{ "name": "v", "emptyDir": {} }], "tolerations": [{ "key": "a" }, { "key": "b" }] } });
    let written = &["/spec/volumes/[name=v]/emptyDir", "/spec/tolerations/0"][..];
    check_split(
        &bare,
        &volume,
        written,
        &[
            "+ /spec/tolerations/-",
            "+ /spec/tolerations/-",
            "+ /spec/volumes/[name=v]",
        ],
    );
    check_split(
        &volume,
        &bare,
        written,
        &["- /spec/tolerations", "- /spec/volumes/[name=v]"],
    );
    let empty = json!({ "metadata": { "labels": {} }, "spec": {} });
    check_split(&bare, &empty, label, &["+ /metadata/labels"]);
    check_split(
        &empty,
        &labelled,
        label,
        &["+ /metadata/labels/team", "+ /metadata/labels/tier"],
    );
    check_split(
        &labelled,
        &empty,
        label,
        &["- /metadata/labels/team", "- /metadata/labels/tier"],
    );
}

#[test]
fn the_roots_of_what_is_no_pod_are_compared_too() {
    check(&json!({}), &json!({ "spec": 1 }), &["+ /spec"]);
    let changes = compare(&json!(1), &json!(2), &|_| true).len();
    assert_eq!(changes, 1);
}
