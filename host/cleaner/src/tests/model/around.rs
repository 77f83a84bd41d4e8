//! What people can do around a Cleaner and its targets.

use podloom_api::names::cleaner::{FINALIZER, annotation};
use podloom_model::Act;
use podloom_model::store::{Store, Stored};
use serde_json::{Value, json};

use super::{CLEANERS, MAPS};

/// The ConfigMap that all Cleaners select by its label.
pub(super) const LABELLED: &str = "x";
/// The time for which nothing is deleted: none, or two ticks.
const TTLS: [&str; 2] = ["0", "60s"];

/// What people can do to an object: what it is, what of the bounds it takes if it is possible, and what it changes.
type Row = (
    &'static str,
    fn(&Stored) -> Option<u8>,
    fn(&mut Store, &str),
);

const OF_CLEANERS: [Row; 8] = [
    (
        "somebody makes Cleaner {} a dry run",
        |it| (it.value["spec"]["dryRun"] == false).then_some(1),
        |store, name| edit(store, name, "dryRun", json!(true)),
    ),
    (
        "somebody ends the dry run of Cleaner {}",
        |it| (it.value["spec"]["dryRun"] == true).then_some(1),
        |store, name| edit(store, name, "dryRun", json!(false)),
    ),
    (
        "somebody lets Cleaner {} live longer",
        |it| (it.value["spec"]["ttl"] == TTLS[0]).then_some(1),
        |store, name| edit(store, name, "ttl", json!(TTLS[1])),
    ),
    (
        "somebody takes a target from Cleaner {}",
        |it| it.value["spec"]["targets"][1].is_object().then_some(1),
        |store, name| edit(store, name, "targets", json!([target(name)])),
    ),
    (
        "somebody deletes Cleaner {}",
        |it| (!it.is_deleted()).then_some(1),
        |store, name| store.delete(CLEANERS, name, &Value::Null),
    ),
    (
        "somebody removes the finalizer of Cleaner {}",
        |it| has_finalizer(it).then_some(1),
        |store, name| set(store, CLEANERS, name, "finalizers", json!([])),
    ),
    (
        "somebody abandons Cleaner {}",
        |it| (it.is_deleted() && has_finalizer(it)).then_some(1),
        |store, name| annotate(store, CLEANERS, name, annotation::ABANDON),
    ),
    (
        "somebody lists an object in the status of Cleaner {}",
        |it| (!has_finalizer(it) && !it.is_deleted()).then_some(1),
        forge,
    ),
];

const OF_MAPS: [Row; 6] = [
    (
        "somebody deletes ConfigMap {}",
        |it| (!it.is_deleted()).then_some(1),
        |store, name| store.delete(MAPS, name, &Value::Null),
    ),
    (
        "somebody replaces ConfigMap {}",
        |it| it.finalizers().next().is_none().then_some(1),
        |store, name| {
            store.remove(MAPS, name);
            create_map(store, name);
        },
    ),
    (
        "somebody holds ConfigMap {}",
        |it| it.finalizers().next().is_none().then_some(1),
        |store, name| set(store, MAPS, name, "finalizers", json!(["example.com/hold"])),
    ),
    (
        "ConfigMap {} is let go",
        // That happens sooner or later.
        |it| it.finalizers().next().map(|_| u8::from(!it.is_deleted())),
        |store, name| set(store, MAPS, name, "finalizers", json!([])),
    ),
    (
        "somebody protects ConfigMap {}",
        |it| (!is_protected(it)).then_some(1),
        |store, name| annotate(store, MAPS, name, annotation::PROTECT),
    ),
    (
        "somebody removes the label of ConfigMap {}",
        |it| is_labelled(it).then_some(1),
        |store, name| set(store, MAPS, name, "labels", json!({})),
    ),
];

/// What people can do next to a Cleaner.
pub(super) fn of_cleaner(store: &Store, name: &'static str) -> Vec<Act> {
    match store.get(CLEANERS, name) {
        Some(cleaner) => possible(&OF_CLEANERS, cleaner, name),
        None => vec![act(
            "somebody creates Cleaner {} again",
            1,
            name,
            create_cleaner,
        )],
    }
}

/// What people can do next to a ConfigMap.
pub(super) fn of_map(store: &Store, name: &'static str) -> Vec<Act> {
    match store.get(MAPS, name) {
        Some(map) => possible(&OF_MAPS, map, name),
        None => vec![act(
            "somebody creates ConfigMap {} again",
            1,
            name,
            create_map,
        )],
    }
}

fn possible(rows: &[Row], object: &Stored, name: &'static str) -> Vec<Act> {
    let rows = rows.iter();
    rows.filter_map(|(what, takes, change)| Some(act(what, takes(object)?, name, *change)))
        .collect()
}

fn act(what: &str, takes: u8, name: &'static str, change: fn(&mut Store, &str)) -> Act {
    let what = what.replace("{}", name);
    (what, takes, Box::new(move |store| change(store, name)))
}

/// Whether a Cleaner has the operator's finalizer.
pub(super) fn has_finalizer(cleaner: &Stored) -> bool {
    cleaner.finalizers().any(|it| it == FINALIZER)
}

/// Whether a ConfigMap has the label that Cleaners select.
pub(super) fn is_labelled(map: &Stored) -> bool {
    map.value["metadata"]["labels"]["app"] == "x"
}

/// Whether no Cleaner may delete a ConfigMap.
pub(super) fn is_protected(map: &Stored) -> bool {
    map.value["metadata"]["annotations"][annotation::PROTECT] == "true"
}

fn edit(store: &mut Store, name: &str, field: &str, to: Value) {
    store.change(CLEANERS, name, |it| it["spec"][field] = to);
}

fn set(store: &mut Store, resource: &str, name: &str, field: &str, to: Value) {
    store.change(resource, name, |it| it["metadata"][field] = to);
}

fn annotate(store: &mut Store, resource: &str, name: &str, annotation: &str) {
    set(
        store,
        resource,
        name,
        "annotations",
        json!({ annotation: "true" }),
    );
}

/// Writes into a status that an object is to be deleted, as only the operator should.
fn forge(store: &mut Store, name: &str) {
    let uid = store
        .get(MAPS, LABELLED)
        .map_or("", |it| it.uid())
        .to_owned();
    let object = json!({ "target": "all", "version": "v1", "kind": "ConfigMap", "resource": MAPS, "namespace": "team", "name": LABELLED, "uid": uid });
    let plan = json!({ "phase": "Targets", "phaseStartedAt": "2026-01-01T00:00:00.000000Z", "objects": [object] });
    store.change(CLEANERS, name, |it| it["status"]["deletion"] = plan);
}

pub(super) fn create_map(store: &mut Store, name: &str) {
    let labels = match name {
        LABELLED => json!({ "app": "x" }),
        _ => json!({}),
    };
    let metadata = json!({ "name": name, "labels": labels });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    store.create(MAPS, map);
}

/// The target that is the ConfigMap of this name.
fn target(name: &str) -> Value {
    let reference = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name });
    json!({ "name": "one", "delete": true, "reference": reference })
}

pub(super) fn create_cleaner(store: &mut Store, name: &str) {
    let labelled =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "matchLabels": { "app": "x" } });
    let all = json!({ "name": "all", "delete": true, "reference": labelled });
    let spec = json!({
        "ttl": TTLS[0], "retry": { "period": "2m" }, "targets": [target(name), all], "dryRun": false,
        "deletion": { "timeout": "1m", "waitForGone": name == "a" },
    });
    let (api, kind) = ("cleaner.vtex.dev/v1alpha", "Cleaner");
    let cleaner =
        json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name }, "spec": spec });
    store.create(CLEANERS, cleaner);
}
