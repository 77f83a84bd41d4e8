use kube::core::ObjectMeta;
use podloom_api::{BrowserConfigObject, SelenosisApi};
use podloom_engine::namespaces::UnreadNamespaces;
use podloom_engine::readable::Readable;
use podloom_scripted::{scripted, status};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::{AdmissionCaches, candidates, config_refs, prune};
use crate::ControllerMetrics;

fn config(namespace: &str, name: &str, more: &Value) -> Value {
    let mut config = json!({
        "metadata": { "namespace": namespace, "name": name, "resourceVersion": "1" },
        "spec": { "browsers": { "chrome": { "1": { "image": "a" } } } },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        config["metadata"][field] = value.clone();
    }
    config
}

fn typed(config: Value) -> BrowserConfigObject {
    serde_json::from_value(config).unwrap()
}

#[track_caller]
fn check(caches: &AdmissionCaches, namespace: &str, expected: Option<&[&str]>) {
    let configs = caches.configs(namespace);
    let mut names = configs.as_ref().map(|configs| {
        let refs = config_refs(configs);
        refs.iter().map(super::ConfigRef::name).collect::<Vec<_>>()
    });
    if let Some(names) = &mut names {
        names.sort_unstable();
    }
    assert_eq!(names.as_deref(), expected, "{namespace}");
}

#[test]
fn configs_are_those_of_the_namespace_that_stay() {
    let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let caches = AdmissionCaches::of(
        [
            typed(config("team-a", "a", &Value::Null)),
            typed(config("team-a", "b", &Value::Null)),
            typed(config("team-a", "c", &going)),
            typed(config("team-b", "d", &Value::Null)),
        ],
        [],
        [ObjectMeta {
            name: Some("team-a".to_owned()),
            labels: Some([("team".to_owned(), "a".to_owned())].into()),
            ..ObjectMeta::default()
        }],
    );
    check(&caches, "team-a", Some(&["a", "b"]));
    check(&caches, "team-b", Some(&["d"]));
    check(&caches, "team-c", Some(&[]));
    let about = caches.namespace("team-a").unwrap();
    assert_eq!(
        (about.labels["team"].as_str(), about.annotations.len()),
        ("a", 0)
    );
    assert_eq!(caches.namespace("team-b"), None);
}

#[test]
fn what_no_check_reads_is_not_kept() {
    let mut config = config("team-a", "a", &json!({ "labels": { "a": "b" } }));
    config["metadata"]["annotations"] = json!({ "a": "b" });
    config["metadata"]["managedFields"] = json!([{ "manager": "kubectl" }]);
    config["status"] = json!({ "version": "abc" });
    let mut config: Readable<BrowserConfigObject> = serde_json::from_value(config).unwrap();
    prune(&mut config);
    let config = config.0.unwrap();
    assert_eq!(config.status, None);
    assert_eq!(
        config.metadata,
        ObjectMeta {
            name: Some("a".to_owned()),
            namespace: Some("team-a".to_owned()),
            resource_version: Some("1".to_owned()),
            ..ObjectMeta::default()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn one_namespace_is_watched_alone_and_others_are_unknown() {
    let (client, requests) = scripted(|request, _| match request {
        "GET /apis/browserconfig.selenosis.io/v1/namespaces/team-a/browserconfigs" => {
            let items = [config("team-a", "a", &Value::Null)];
            (
                200,
                json!({ "metadata": { "resourceVersion": "1" }, "items": items }),
            )
        }
        "GET /apis/portal.gosuda.org/v1alpha1/tunnelclasses" => {
            let class =
                json!({ "metadata": { "name": "a" }, "spec": { "replicas": 1, "size": "small" } });
            (
                200,
                json!({ "metadata": { "resourceVersion": "1" }, "items": [class] }),
            )
        }
        _ => (403, status(403, "Forbidden", "no right")),
    });
    let metrics = ControllerMetrics::register(&mut Registry::default());
    let namespaces = ["team-a".to_owned()];
    let (caches, work) = AdmissionCaches::watch(
        &client,
        SelenosisApi::Split,
        &namespaces,
        UnreadNamespaces::Refused,
        &metrics,
    );
    check(&caches, "team-a", None);
    assert!(caches.classes().is_none());
    let work = tokio::spawn(work);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    work.abort();
    check(&caches, "team-a", Some(&["a"]));
    check(&caches, "team-b", None);
    assert_eq!(candidates(&caches.classes().unwrap()).len(), 1);
    assert_eq!(caches.namespace("team-a"), None);
    let made = requests.made();
    assert!(
        made.contains(&"GET /api/v1/namespaces".to_owned()),
        "{made:?}"
    );
}
