mod server;

use std::sync::{Arc, Mutex, MutexGuard};

use kube::Client;
use podloom_api::Cleaner;
use podloom_engine::clock::Clock;
use podloom_engine::error::Error;
use podloom_engine::outbound::SystemResolver;
use podloom_engine::pass::Next;
use podloom_engine::testing::{alone, context};
use podloom_scripted::scripted;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use self::server::{CLEANER, MAPS, State};
use super::CleanerKind;
use crate::delivery::Delivery;
use crate::fixtures::{alarms, kind_with, metrics, sinks};
use crate::memory::Memory;
use crate::settings::CleanerSettings;

/// A Cleaner, its controller and its API server.
struct Cluster {
    state: Arc<Mutex<State>>,
    kind: Arc<CleanerKind>,
    client: Client,
}

impl Cluster {
    fn new(spec: &Value) -> Self {
        let state = Arc::new(Mutex::new(State::new(spec)));
        let served = Arc::clone(&state);
        let (client, _) =
            scripted(move |request, body| served.lock().unwrap().serve(request, body));
        let kind = Arc::new(kind_with(client.clone(), CleanerSettings::default()));
        Self {
            state,
            kind,
            client,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes a pass over the Cleaner as the API server has it.
    async fn pass(&self) -> Result<Next, Error> {
        let cleaner = self.state().cleaner.clone().unwrap();
        self.pass_over(cleaner).await
    }

    async fn pass_over(&self, cleaner: Value) -> Result<Next, Error> {
        self.kind.memory.know(&"own".into());
        self.pass_over_gone(cleaner).await
    }

    /// Makes a pass over a Cleaner that is forgotten already.
    async fn pass_over_gone(&self, cleaner: Value) -> Result<Next, Error> {
        let resource = Arc::new(Cleaner::resource());
        let passes = alone(
            Arc::clone(&self.kind),
            &resource,
            context(self.client.clone()),
        );
        let cleaner = serde_json::from_value(cleaner).unwrap();
        passes.reconcile(&cleaner).await
    }

    fn writes(&self) -> Vec<String> {
        let state = self.state();
        state
            .writes
            .iter()
            .map(|(request, _)| request.clone())
            .collect()
    }

    fn bodies(&self, request: &str) -> Vec<Value> {
        let state = self.state();
        let writes = state
            .writes
            .iter()
            .filter(|(it, _)| it.starts_with(request));
        writes.map(|(_, body)| body.clone()).collect()
    }

    fn outcomes(&self) -> Vec<(Value, Value)> {
        let state = self.state();
        let cleaner = state.cleaner.as_ref().unwrap();
        let objects = cleaner["status"]["deletion"]["objects"].as_array().unwrap();
        objects
            .iter()
            .map(|it| (it["outcome"].clone(), it["message"].clone()))
            .collect()
    }
}

/// A Cleaner that deletes the ConfigMap `web`, and then all with a label.
fn spec() -> Value {
    json!({ "ttl": "0", "targets": [
        { "name": "web", "includeWhenEvaluating": true, "delete": true,
            "reference": { "apiVersion": "v1", "kind": "configmap", "name": "web" } },
        { "name": "all", "delete": true,
            "reference": { "apiVersion": "v1", "kind": "ConfigMap", "matchLabels": { "app": "x" } } },
    ], "conditions": ["web.kind == 'ConfigMap' && web.apiVersion == 'v1'"] })
}

fn delete(name: &str) -> String {
    format!("DELETE {MAPS}/{name}")
}

#[tokio::test]
async fn a_deletion_is_committed_in_three_writes_and_then_made() {
    let cluster = Cluster::new(&spec());
    cluster.state().map("web", "1");
    cluster.state().map("other", "2");
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
    let patch = format!("PATCH {CLEANER}");
    let status = format!("PATCH {CLEANER}/status");
    let mut writes = cluster.writes();
    writes[3..5].sort();
    let expected = [
        patch.clone(),
        status.clone(),
        format!("DELETE {CLEANER}"),
        delete("other"),
        delete("web"),
        status.clone(),
        patch.clone(),
    ];
    assert_eq!(writes, expected);
    // Each write of the commit is for the version that the one before has made.
    let state = cluster.state();
    let version = |number: usize| state.writes[number].1["metadata"]["resourceVersion"].clone();
    assert_eq!((version(0), version(1)), (json!("10"), json!("11")));
    assert!(state.maps.is_empty() && state.cleaner.is_none());
}

#[tokio::test]
async fn each_deletion_has_a_uid_and_a_propagation_policy() {
    for policy in ["Background", "Foreground"] {
        let mut spec = spec();
        spec["deletion"] = json!({ "propagationPolicy": policy });
        let cluster = Cluster::new(&spec);
        cluster.state().map("web", "1");
        cluster.pass().await.unwrap();
        let web = cluster.bodies(&delete("web"));
        assert_eq!(web.len(), 1);
        assert_eq!(web[0]["preconditions"], json!({ "uid": "1" }));
        assert_eq!(web[0]["propagationPolicy"], policy);
        let own = cluster.bodies(&format!("DELETE {CLEANER}"));
        assert_eq!(own[0]["preconditions"], json!({ "uid": "own" }));
        assert_eq!(own[0]["propagationPolicy"], "Background");
    }
}

/// Somebody has changed the Cleaner since its conditions were evaluated.
#[tokio::test]
async fn a_changed_cleaner_deletes_nothing() {
    let cluster = Cluster::new(&spec());
    cluster.state().map("web", "1");
    let old = cluster.state().cleaner.clone().unwrap();
    cluster.state().cleaner.as_mut().unwrap()["metadata"]["resourceVersion"] = json!("99");
    let error = cluster.pass_over(old).await.unwrap_err();
    assert_eq!(error.reason(), "SetMetadata");
    assert_eq!(cluster.writes(), [format!("PATCH {CLEANER}")]);
}

/// A plan that is not stored deletes nothing.
#[tokio::test]
async fn a_refused_plan_deletes_nothing() {
    let cluster = Cluster::new(&spec());
    cluster.state().map("web", "1");
    let status = format!("PATCH {CLEANER}/status");
    cluster.state().faults.push((status.clone(), 409));
    assert!(cluster.pass().await.is_err());
    assert_eq!(cluster.writes(), [format!("PATCH {CLEANER}"), status]);
}

#[tokio::test]
async fn another_object_of_the_name_stays() {
    let cluster = committed(&[("web", "1")]);
    cluster.state().map("web", "2");
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
    assert_eq!(cluster.state().maps.len(), 1);
}

#[tokio::test]
async fn what_is_gone_is_done() {
    let cluster = committed(&[("web", "1")]);
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
    assert!(cluster.state().cleaner.is_none());
}

#[tokio::test]
async fn a_kind_that_is_gone_is_done() {
    let cluster = committed(&[("web", "1")]);
    cluster.state().map("web", "1");
    // It was known a moment ago.
    let kind = crate::checked::KindReference {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
    };
    cluster.kind.reader.discovery.find(&kind).await.unwrap();
    cluster.state().has_kind = false;
    assert!(cluster.pass().await.is_err());
    assert_eq!(cluster.outcomes()[0].0, Value::Null);
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
    assert_eq!(cluster.state().cleaner, None);
}

#[tokio::test]
async fn a_failure_stops_no_other_and_is_tried_again() {
    let cluster = committed(&[("web", "1"), ("other", "2")]);
    cluster.state().map("web", "1");
    cluster.state().map("other", "2");
    cluster.state().faults.push((delete("web"), 403));
    let error = cluster.pass().await.unwrap_err();
    assert_eq!(error.to_string(), "1 object could not be deleted");
    assert_eq!(
        cluster.outcomes(),
        [
            (Value::Null, json!("refused ")),
            (json!("Accepted"), Value::Null)
        ]
    );
    cluster.state().faults.clear();
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
    assert_eq!(
        cluster.bodies(&delete("other")).len(),
        1,
        "it is not deleted again"
    );
}

/// The kind is one that a target names, and the plural is that of another.
#[tokio::test]
async fn a_forged_plural_deletes_nothing() {
    let cluster = committed(&[("web", "1")]);
    cluster.state().cleaner.as_mut().unwrap()["status"]["deletion"]["objects"][0]["resource"] =
        json!("secrets");
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
    let deletions = cluster.bodies("DELETE ");
    assert_eq!(deletions, Vec::<Value>::new());
    let status = cluster.bodies(&format!("PATCH {CLEANER}/status"));
    assert_eq!(
        status[0]["status"]["deletion"]["objects"][0]["message"],
        "secrets is not what a ConfigMap is"
    );
}

/// Whoever may write the status could have listed it, and it may have been relabelled since.
#[tokio::test]
async fn what_the_spec_does_not_select_or_an_annotation_protects_stays() {
    let cluster = committed(&[("web", "1"), ("plain", "2"), ("kept", "3"), ("other", "4")]);
    {
        let mut state = cluster.state();
        for (name, uid) in [("web", "1"), ("plain", "2"), ("kept", "3"), ("other", "4")] {
            state.map(name, uid);
        }
        state.maps.get_mut("plain").unwrap()["metadata"]["labels"] = json!({ "app": "y" });
        state.maps.get_mut("kept").unwrap()["metadata"]["annotations"] =
            json!({ "cleaner.vtex.dev/protect": "true" });
    }
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
    let mut deleted = cluster.writes();
    deleted.retain(|it| it.starts_with("DELETE"));
    deleted.sort();
    assert_eq!(deleted, [delete("other"), delete("web")]);
    let status = cluster.bodies(&format!("PATCH {CLEANER}/status"));
    let message = |place: usize| &status[0]["status"]["deletion"]["objects"][place]["message"];
    assert_eq!(
        message(1),
        "no target of the spec that is deleted selects it"
    );
    assert_eq!(
        message(2),
        "it is annotated cleaner.vtex.dev/protect: \"true\""
    );
}

/// A Cleaner whose deletion was committed, of these ConfigMaps.
fn committed(objects: &[(&str, &str)]) -> Cluster {
    let cluster = Cluster::new(&spec());
    let objects: Vec<Value> = objects
        .iter()
        .map(|(name, uid)| {
            json!({ "target": "web", "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
                "namespace": "demo", "name": name, "uid": uid })
        })
        .collect();
    let now = jiff::Timestamp::now();
    {
        let mut state = cluster.state();
        let cleaner = state.cleaner.as_mut().unwrap();
        cleaner["metadata"]["finalizers"] = json!(["cleaner.vtex.dev/deletion"]);
        cleaner["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        cleaner["status"] = json!({ "deletion": { "phase": "Targets", "phaseStartedAt": now, "objects": objects } });
    }
    cluster
}

/// A Cleaner that our types cannot hold says so in its status.
#[tokio::test]
async fn a_malformed_spec_is_said() {
    let cluster = Cluster::new(&json!({ "ttl": "1h", "targets": "none" }));
    cluster.pass().await.unwrap();
    let state = cluster.state();
    let ready = &state.cleaner.as_ref().unwrap()["status"]["conditions"][0];
    assert_eq!(ready["reason"], "InvalidSpec");
    assert_eq!(
        ready["message"],
        "the spec cannot be read: invalid type: string, expected a sequence"
    );
}

#[tokio::test]
async fn a_condition_sees_what_the_api_server_has() {
    let mut spec = spec();
    spec["conditions"] = json!(["web.metadata.uid == '1'", "web.metadata.name == 'other'"]);
    let cluster = Cluster::new(&spec);
    cluster.state().map("web", "1");
    cluster.pass().await.unwrap();
    let state = cluster.state();
    let status = &state.cleaner.as_ref().unwrap()["status"];
    assert_eq!(
        status["conditionResults"],
        json!([{ "index": 0, "result": "True" }, { "index": 1, "result": "False" }])
    );
    assert_eq!(status["resolvedTargets"], json!(["web.configmaps/v1"]));
    assert_eq!(state.writes.len(), 1);
}

/// A user has deleted it meanwhile: nothing would ever end what is watched for it.
#[tokio::test]
async fn a_pass_over_a_cleaner_that_is_gone_leaves_nothing_behind() {
    let cluster = Cluster::new(&spec());
    cluster.state().map("web", "1");
    let old = cluster.state().cleaner.take().unwrap();
    cluster.pass_over_gone(old).await.unwrap();
    let kind = &cluster.kind;
    assert!(!kind.watches.knows("own") && !kind.memory.knows("own"));
}

/// A Cleaner that rests with this spec, and has been changed to the other one since it was observed. Returns the old one too.
async fn changed_since(before: &Value, after: &Value) -> (Cluster, Value) {
    let rests = Cluster::new(before);
    rests.state().map("web", "1");
    rests.pass().await.unwrap();
    let mut old = rests.state().cleaner.clone().unwrap();
    // So the next status differs in nothing else, and its patch has no resourceVersion.
    old["status"]["nextScheduledEvaluation"] = json!("2026-01-02T00:00:00Z");
    let cluster = Cluster::new(after);
    {
        let mut state = cluster.state();
        state.map("web", "1");
        let mut live = old.clone();
        live["spec"] = after.clone();
        live["metadata"]["generation"] = json!(2);
        live["metadata"]["resourceVersion"] = json!("99");
        state.cleaner = Some(live);
    }
    (cluster, old)
}

/// What the conditions of the old spec say is nothing about what the new one deletes.
#[tokio::test]
async fn a_spec_that_is_changed_during_a_look_is_evaluated_before_anything_is_deleted() {
    let mut before = spec();
    before["dryRun"] = json!(true);
    let mut after = spec();
    after["conditions"] = json!(["web.metadata.name == 'other'"]);
    let (cluster, old) = changed_since(&before, &after).await;
    cluster.pass_over(old).await.unwrap();
    let state = cluster.state();
    let requests: Vec<&String> = state.writes.iter().map(|(request, _)| request).collect();
    assert!(
        requests
            .iter()
            .all(|it| **it == format!("PATCH {CLEANER}/status")),
        "{requests:?}"
    );
    let cleaner = state.cleaner.as_ref().unwrap();
    let ready = &cleaner["status"]["conditions"][0];
    assert_eq!(
        (&ready["reason"], &ready["observedGeneration"]),
        (&json!("WaitingForConditions"), &json!(2))
    );
    assert!(state.maps.contains_key("web"));
}

#[tokio::test]
async fn a_spec_that_is_changed_during_a_look_does_not_wait_for_the_period() {
    let mut before = spec();
    before["conditions"] = json!(["web.metadata.name == 'other'"]);
    let (cluster, old) = changed_since(&before, &spec()).await;
    assert_eq!(cluster.pass_over(old).await.unwrap(), Next::Change);
    assert!(cluster.state().maps.is_empty());
}

/// The answer to the first request was lost, and such an object cannot be deleted twice.
#[tokio::test]
async fn what_is_being_deleted_already_is_accepted() {
    let cluster = committed(&[("web", "1")]);
    {
        let mut state = cluster.state();
        state.map("web", "1");
        let web = state.maps.get_mut("web").unwrap();
        web["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        state.faults.push((delete("web"), 409));
    }
    assert_eq!(cluster.pass().await.unwrap(), Next::Change);
    assert!(cluster.state().cleaner.is_none());
}

/// It vanishes while a pass sends its CloudEvent, so nothing comes that would forget the attempt.
#[tokio::test]
async fn nothing_is_kept_of_an_event_of_a_cleaner_that_is_gone() {
    let mut cluster = committed(&[]);
    {
        let mut state = cluster.state();
        let cleaner = state.cleaner.as_mut().unwrap();
        cleaner["spec"]["cloudEventSink"] = json!("http://sink.demo/");
        cleaner["status"]["deletion"]["phase"] = json!("Event");
        cleaner["status"]["deletion"]["event"] = json!({ "attempts": 0 });
    }
    let (memory, sinks) = (Memory::default(), sinks(true, SystemResolver::default()));
    let (alarms, _) = alarms(&memory);
    let metrics = metrics(&mut Registry::default());
    // It runs, and gets nowhere.
    let (delivery, _work) = Delivery::start(sinks, alarms, Clock::new(), metrics);
    let kind = Arc::get_mut(&mut cluster.kind).unwrap();
    (kind.delivery, kind.memory) = (delivery, memory.clone());
    let old = cluster.state().cleaner.clone().unwrap();
    cluster.pass_over_gone(old).await.unwrap();
    assert!(!memory.knows("own"));
    assert_eq!(memory.recall("own", None).attempt, None);
    let old = cluster.state().cleaner.clone().unwrap();
    cluster.pass_over(old).await.unwrap();
    assert!(memory.recall("own", None).attempt.is_some());
}
