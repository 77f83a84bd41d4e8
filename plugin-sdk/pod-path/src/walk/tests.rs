use std::cell::Cell;
use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{LONG, Place, Places, search};
use crate::{Access, AccessLimits, Transaction};

thread_local! {
    /// How many elements were looked at on this thread: by test, since each has a thread of its own.
    pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
}

fn begin(pod: Value) -> Transaction {
    let mut access = Access::unrestricted();
    access.limits = AccessLimits {
        writes: usize::MAX,
        ..AccessLimits::default()
    };
    Transaction::begin(pod, access.into(), [].into())
}

fn containers(count: usize) -> Value {
    let containers: Vec<Value> = (0..count)
        .map(|number| json!({ "name": format!("c{number}") }))
        .collect();
    json!({ "spec": { "containers": containers } })
}

/// What a plugin such as hardening does, and what a script may do: writes to each container by name and by index, a volume and a mount
/// for each, and what was written is read again.
fn looks_of_writes_to_each(count: usize) -> usize {
    let mut pod = begin(containers(count));
    LOOKS.set(0);
    for number in 0..count {
        let named = format!("/spec/containers/[name=c{number}]");
        let set = |pod: &mut Transaction, path: &str, value: &str| {
            pod.set(path, value.to_owned()).expect(path);
        };
        set(&mut pod, &format!("{named}/securityContext"), "{}");
        set(&mut pod, &format!("/spec/containers/{number}/tty"), "true");
        let volume = format!(r#"{{"name":"v{number}"}}"#);
        set(&mut pod, "/spec/volumes/-", &volume);
        set(
            &mut pod,
            &format!("{named}/volumeMounts/[mountPath=~1tmp]"),
            &volume,
        );
        assert!(pod.get(&named).expect("a container").is_some());
    }
    LOOKS.get()
}

#[test]
fn four_times_the_containers_take_at_most_five_times_the_looks() {
    let (few, many) = (looks_of_writes_to_each(200), looks_of_writes_to_each(800));
    assert!(many <= 5 * few, "{few} looks for 200, {many} for 800");
}

#[test]
fn containers_that_share_a_name_are_looked_at_once() {
    let mut pod = containers(800);
    for container in pod["spec"]["containers"].as_array_mut().expect("a list") {
        container["name"] = json!("same");
    }
    let mut pod = begin(pod);
    LOOKS.set(0);
    for _ in 0..800 {
        let path = "/spec/containers/[name=same]/tty";
        let error = pod.set(path, "true".to_owned()).expect_err("not unique");
        assert!(error.to_string().contains("matches 800 elements"));
    }
    assert!(LOOKS.get() <= 5 * 800, "{}", LOOKS.get());
}

/// A write to a long list.
#[derive(Clone, Debug)]
enum Edit {
    Append(usize),
    Insert(usize, usize),
    Replace(usize, usize),
    Rename(usize, usize),
    Beside(usize),
    Remove(usize),
    All(usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let (at, name) = (0..LONG + 8, 0..LONG + 8);
    let edit = prop_oneof![
        name.clone().prop_map(Edit::Append),
        (at.clone(), name.clone()).prop_map(|(at, name)| Edit::Insert(at, name)),
        (at.clone(), name.clone()).prop_map(|(at, name)| Edit::Replace(at, name)),
        (at.clone(), name.clone()).prop_map(|(at, name)| Edit::Rename(at, name)),
        at.clone().prop_map(Edit::Beside),
        at.prop_map(Edit::Remove),
        (LONG..LONG + 8).prop_map(Edit::All),
    ];
    prop::collection::vec(edit, 1..24)
}

fn make(pod: &mut Transaction, edit: &Edit) {
    let volume = |name: &usize| format!(r#"{{"name":"v{name}"}}"#);
    // Refused ones change nothing.
    let _ = match edit {
        Edit::Append(name) => pod.set("/spec/volumes/-", volume(name)),
        Edit::Insert(at, name) => pod.insert(&format!("/spec/volumes/{at}"), volume(name)),
        Edit::Replace(at, name) => pod.set(&format!("/spec/volumes/{at}"), volume(name)),
        Edit::Rename(at, name) => {
            let name = format!("\"v{name}\"");
            pod.set(&format!("/spec/volumes/{at}/name"), name)
        }
        Edit::Beside(at) => pod.set(&format!("/spec/volumes/{at}/emptyDir"), "{}".to_owned()),
        Edit::Remove(at) => pod.remove(&format!("/spec/volumes/{at}")).map(drop),
        Edit::All(count) => {
            let mut list = String::from("[");
            for name in 0..*count {
                let _ = write!(list, "{},", volume(&name));
            }
            list.pop();
            pod.set("/spec/volumes", list + "]")
        }
    };
}

proptest! {
    /// What is remembered of a long list is what a search would find, whatever was written to it.
    #[test]
    fn places_are_those_of_a_search(edits in edits()) {
        let volumes: Vec<Value> = (0..LONG + 4).map(|name| json!({ "name": format!("v{name}") })).collect();
        let mut pod = begin(json!({ "spec": { "volumes": volumes } }));
        for edit in &edits {
            make(&mut pod, edit);
            let list = pod.get("/spec/volumes").expect("granted").unwrap_or_default();
            let list: Vec<Value> = serde_json::from_str(&list).expect("JSON");
            for name in 0..LONG + 8 {
                let name = format!("v{name}");
                let found = pod.get(&format!("/spec/volumes/[name={name}]"));
                match search(&list, "name", &name) {
                    Place::Nowhere => prop_assert_eq!(found, Ok(None), "{:?}", edit),
                    Place::One(index) => prop_assert_eq!(found, Ok(Some(list[index].to_string())), "{:?}", edit),
                    Place::Several(_) => prop_assert!(found.is_err(), "{:?}", edit),
                }
            }
        }
    }
}

#[test]
fn a_list_that_grows_is_found_at_its_new_address() {
    let mut places = Places::default();
    let mut list: Vec<Value> = (0..LONG).map(|name| json!({ "name": name })).collect();
    list.shrink_to_fit();
    assert_eq!(places.find(&list, "name", "7"), Place::One(7));
    let before = super::address(&list);
    list.insert(3, json!({ "name": "new" }));
    places.inserted(before, &list, 3);
    super::tests::LOOKS.set(0);
    assert_eq!(places.find(&list, "name", "7"), Place::One(8));
    assert_eq!(LOOKS.get(), 1, "it is not read again");
}
