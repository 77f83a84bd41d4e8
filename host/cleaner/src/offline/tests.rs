mod live;

use podloom_api::names::cleaner::reason;
use serde_json::{Value, json};

use super::{CleanerSettings, Live, Next, Question, Rehearsal, Stage, rehearse};
use crate::offline::Cause;

const CREATED: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-01T02:00:00Z";

/// What a Cleaner in the namespace `team` would do in a world of these objects, two hours after it was created.
async fn rehearsed(spec: Value, objects: &[Value], cluster_scoped: &[&str]) -> Rehearsal {
    let spec = serde_json::from_value(spec).unwrap();
    let cluster_scoped = cluster_scoped.iter().map(|kind| kind.parse().unwrap());
    let settings = CleanerSettings {
        cluster_scoped: cluster_scoped.collect(),
        ..CleanerSettings::default()
    };
    let live = Live {
        created: CREATED.parse().ok(),
        ..Live::default()
    };
    let question = Question {
        spec: &spec,
        namespace: "team",
        live: &live,
        at: NOW.parse().unwrap(),
        settings: &settings,
    };
    rehearse(question, &Stage::Files(objects)).await.unwrap()
}

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        // As the command line fills it in, whatever the kind is.
        "metadata": { "name": name, "namespace": "team", "labels": { "app": "a" } },
    })
}

/// A target that conditions see and that is deleted.
fn target(name: &str, reference: &Value) -> Value {
    json!({ "name": name, "includeWhenEvaluating": true, "delete": true, "reference": reference })
}

fn pods() -> Value {
    target(
        "pods",
        &json!({ "version": "v1", "kind": "pod", "matchLabels": { "app": "a" } }),
    )
}

fn next(at: &str, cause: Cause) -> Option<Next> {
    let at = at.parse().unwrap();
    Some(Next { at, cause })
}

fn deleted(rehearsal: &Rehearsal) -> Vec<String> {
    let deleted = rehearsal.deleted.as_ref().unwrap().iter();
    deleted
        .map(|it| format!("{} {}/{}", it.kind, it.namespace, it.name))
        .collect()
}

#[tokio::test]
async fn what_would_be_deleted_has_the_order_of_the_spec_and_no_other_namespace() {
    let mut elsewhere = object("v1", "Pod", "elsewhere");
    elsewhere["metadata"]["namespace"] = "other".into();
    let objects = [
        object("v1", "Pod", "b"),
        elsewhere,
        object("v1", "ConfigMap", "map"),
        object("v1", "Pod", "a"),
    ];
    let config = target(
        "config",
        &json!({ "version": "v1", "kind": "ConfigMap", "name": "map" }),
    );
    let spec = json!({ "ttl": "1h", "targets": [config, pods()], "conditions": ["pods.items.size() == 2"] });
    let found = rehearsed(spec, &objects, &[]).await;
    assert!(found.is_due, "{found:?}");
    assert_eq!((found.reason.as_str(), found.next), ("ConditionsMet", None));
    assert_eq!(
        deleted(&found),
        ["ConfigMap team/map", "Pod team/b", "Pod team/a"]
    );
}

#[tokio::test]
async fn one_that_is_too_young_is_shown_with_what_its_conditions_say_now() {
    let spec =
        json!({ "ttl": "3h", "targets": [pods()], "conditions": ["pods.items.size() == 2"] });
    let found = rehearsed(spec, &[object("v1", "Pod", "a")], &[]).await;
    assert!(!found.is_due);
    assert_eq!(found.next, next("2026-01-01T03:00:00Z", Cause::Expiry));
    assert_eq!(found.conditions.len(), 1);
    assert_eq!(
        deleted(&found),
        ["Pod team/a"],
        "if the condition were true"
    );
}

#[tokio::test]
async fn the_next_look_is_by_the_period_or_by_time_itself() {
    let waiting = |retry: Value| {
        let condition = "time >= timestamp('2026-01-01T02:30:00Z')";
        json!({ "ttl": "1h", "retry": retry, "conditions": [condition] })
    };
    let found = rehearsed(waiting(json!({ "period": "1h" })), &[], &[]).await;
    assert_eq!(found.reason, reason::WAITING_FOR_CONDITIONS);
    assert_eq!(found.next, next("2026-01-01T03:00:00Z", Cause::Period));
    let monotonic = json!({ "period": "1h", "monotonic": true });
    let found = rehearsed(waiting(monotonic), &[], &[]).await;
    assert_eq!(found.next, next("2026-01-01T02:30:00Z", Cause::Time));
}

#[tokio::test]
async fn what_keeps_a_cleaner_from_deleting_keeps_it_here() {
    #[track_caller]
    fn check(found: &Rehearsal, expected: &str) {
        assert_eq!(
            (found.is_due, found.reason.as_str()),
            (false, expected),
            "{found:?}"
        );
    }
    let mut protected = object("v1", "Pod", "a");
    protected["metadata"]["annotations"] = json!({ "cleaner.vtex.dev/protect": "true" });
    let all = json!({ "ttl": "0", "targets": [pods()] });
    let found = rehearsed(all.clone(), &[protected], &[]).await;
    check(&found, reason::TARGET_PROTECTED);
    let mut dry = all.clone();
    dry["dryRun"] = true.into();
    let found = rehearsed(dry, &[object("v1", "Pod", "a")], &[]).await;
    check(&found, reason::DRY_RUN);
    let mut unknown = all.clone();
    unknown["conditions"] = json!(["pds.items.size() == 0"]);
    check(
        &rehearsed(unknown, &[], &[]).await,
        reason::CONDITION_COMPILE_ERROR,
    );
    let one = target(
        "one",
        &json!({ "version": "v1", "kind": "Pod", "name": "one" }),
    );
    let missing = rehearsed(json!({ "ttl": "0", "targets": [one] }), &[], &[]).await;
    check(&missing, reason::TARGET_RESOLVE_ERROR);
    assert!(
        missing.message.contains("--namespace team -o yaml"),
        "{missing:?}"
    );
}

#[tokio::test]
async fn kinds_in_no_namespace_need_the_flag_as_in_the_operator() {
    let node = target(
        "node",
        &json!({ "version": "v1", "kind": "node", "name": "one" }),
    );
    let spec = json!({
        "ttl": "0", "targets": [node], "conditions": ["!has(node.metadata.namespace)"],
    });
    let nodes = [object("v1", "Node", "one")];
    let refused = rehearsed(spec.clone(), &nodes, &[]).await;
    assert_eq!(refused.reason, reason::TARGET_RESOLVE_ERROR);
    assert!(
        refused.message.contains("does not name nodes"),
        "{refused:?}"
    );
    let allowed = rehearsed(spec, &nodes, &["nodes"]).await;
    assert!(allowed.is_due, "{allowed:?}");
    assert_eq!(deleted(&allowed), ["Node /one"]);
}

#[tokio::test]
async fn a_definition_among_the_files_says_whether_its_kind_is_in_namespaces() {
    let definition = |scope: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "geese.example.com", "namespace": "team" },
            "spec": {
                "group": "example.com", "scope": scope,
                "names": { "kind": "Goose", "plural": "geese" },
            },
        })
    };
    let goose = target(
        "goose",
        &json!({ "apiVersion": "example.com/v1", "kind": "goose", "name": "one" }),
    );
    let spec = json!({ "ttl": "0", "targets": [goose] });
    let of_scope = |scope| [definition(scope), object("example.com/v1", "Goose", "one")];
    let namespaced = rehearsed(spec.clone(), &of_scope("Namespaced"), &[]).await;
    assert_eq!(deleted(&namespaced), ["Goose team/one"]);
    let refused = rehearsed(spec.clone(), &of_scope("Cluster"), &[]).await;
    assert!(
        refused.message.contains("does not name geese.example.com"),
        "{refused:?}"
    );
    let allowed = rehearsed(spec.clone(), &of_scope("Cluster"), &["geese.example.com"]).await;
    assert_eq!(deleted(&allowed), ["Goose /one"]);
    // Without it, the flag says it; the plural is guessed.
    let objects = [object("example.com/v1", "Goose", "one")];
    let guessed = rehearsed(spec, &objects, &["gooses.example.com"]).await;
    assert_eq!(deleted(&guessed), ["Goose /one"]);
}
