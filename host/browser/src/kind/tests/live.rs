//! What a pass asks of the API server itself, and what it makes of the answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use podloom_api::BrowserObject;
use podloom_engine::error::Error;
use podloom_engine::kind::Context;
use podloom_engine::pass::Next;
use podloom_engine::testing::{alone, context};
use podloom_scripted::{Requests, scripted, status};
use serde_json::{Value, json};

use super::{controller_of, pod_of};
use crate::kind::BrowserKind;
use crate::pod::SeenPod;

const BROWSER: &str = "/apis/selenosis.io/v1/namespaces/team/browsers/a";
const BROWSERS: &str = "GET /apis/selenosis.io/v1/namespaces/team/browsers";
const CONFIGS: &str = "GET /apis/selenosis.io/v1/namespaces/team/browserconfigs";
const POD: &str = "/api/v1/namespaces/team/pods/a";
const CREATE: &str = "POST /api/v1/namespaces/team/pods";

/// A controller whose cache shows this pod, or none.
fn shared(cached: Option<Value>) -> Arc<BrowserKind> {
    Arc::new(controller_of(cached))
}

fn ago(seconds: i64) -> String {
    let then = Timestamp::now() - SignedDuration::from_secs(seconds);
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A Browser of that age in seconds, with all metadata that is ours.
fn browser(age: i64) -> Value {
    json!({
        "apiVersion": "selenosis.io/v1", "kind": "Browser",
        "metadata": {
            "name": "a", "namespace": "team", "uid": "new", "generation": 1, "resourceVersion": "7",
            "creationTimestamp": ago(age),
            "finalizers": ["browserpod.selenosis.io/finalizer"],
            "labels": {
                "selenosis.io/browser": "a", "selenosis.io/browser.name": "chrome", "selenosis.io/browser.version": "1",
            },
        },
        "spec": { "browserName": "chrome", "browserVersion": "1" },
    })
}

fn config() -> Value {
    json!({
        "apiVersion": "selenosis.io/v1", "kind": "BrowserConfig",
        "metadata": { "name": "c", "namespace": "team", "uid": "c", "generation": 1, "creationTimestamp": ago(1) },
        "spec": { "browsers": { "chrome": { "1": { "image": "example/chrome" } } } },
    })
}

fn list(items: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "9" }, "items": items })
}

/// What was written, as a merge-patch makes it of what was there.
#[derive(Clone)]
struct Server {
    browser: Arc<Mutex<Value>>,
    patches: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    /// An API server that has this Browser, takes what is written to it, and answers the rest as the test says.
    fn new(
        browser: Value,
        rest: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    ) -> (Self, Client, Requests) {
        let server = Self {
            browser: Arc::new(Mutex::new(browser)),
            patches: Arc::default(),
        };
        let state = server.clone();
        let (client, requests) = scripted(move |request, body| {
            let (own, own_status) = (
                format!("PATCH {BROWSER}"),
                format!("PATCH {BROWSER}/status"),
            );
            let mut browser = state.browser.lock().unwrap();
            if request == BROWSERS {
                return (200, list(std::slice::from_ref(&*browser)));
            }
            if request != own && request != own_status {
                return rest(request);
            }
            let mut merged = body.clone();
            merged["metadata"]["resourceVersion"] = json!("8");
            state.patches.lock().unwrap().push(body);
            json_patch::merge(&mut browser, &merged);
            (200, browser.clone())
        });
        (server, client, requests)
    }

    fn status(&self) -> Value {
        self.browser.lock().unwrap()["status"].clone()
    }
}

fn not_found() -> (u16, Value) {
    (404, status(404, "NotFound", "there is none"))
}

fn typed(browser: Value) -> BrowserObject {
    serde_json::from_value(browser).unwrap()
}

async fn pass(
    controller: &Arc<BrowserKind>,
    client: &Client,
    browser: &Value,
) -> Result<Next, Error> {
    pass_in(controller, context(client.clone()), browser).await
}

async fn pass_in(
    controller: &Arc<BrowserKind>,
    ctx: Context,
    browser: &Value,
) -> Result<Next, Error> {
    let resource = Arc::clone(&controller.resources.browser);
    alone(Arc::clone(controller), &resource, ctx)
        .reconcile(&typed(browser.clone()))
        .await
}

fn pod(owner: &str, phase: &str) -> Value {
    let mut pod = pod_of(owner);
    pod["metadata"]["creationTimestamp"] = json!(ago(3599));
    pod["status"] = json!({ "phase": phase });
    pod
}

/// Watches come back one by one, and that of BrowserConfigs may be the last.
#[tokio::test]
async fn a_config_that_the_cache_does_not_show_is_found() {
    let (server, client, requests) = Server::new(browser(60), |request| match request {
        CONFIGS => (200, list(&[config()])),
        CREATE => {
            let mut created = pod("new", "Pending");
            created["metadata"]["creationTimestamp"] = json!(ago(0));
            (201, created)
        }
        _ => not_found(),
    });
    let controller = shared(None);
    // So long ago that it has waited enough.
    let seen = typed(browser(60));
    controller
        .memory
        .first_seen(&seen.metadata, Timestamp::UNIX_EPOCH);
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert!(requests.made().iter().any(|made| made == CREATE));
    assert_eq!(server.status()["phase"], "Pending");
}

#[tokio::test]
async fn a_browser_ends_without_config_only_after_a_look_at_the_api_server() {
    let (server, client, requests) = Server::new(browser(60), |request| match request {
        CONFIGS => (200, list(&[])),
        _ => not_found(),
    });
    let controller = shared(None);
    let seen = typed(browser(60));
    controller
        .memory
        .first_seen(&seen.metadata, Timestamp::UNIX_EPOCH);
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert_eq!(
        requests.made(),
        [
            format!("GET {POD}"),
            CONFIGS.to_owned(),
            format!("PATCH {BROWSER}/status")
        ]
    );
    assert_eq!(server.status()["phase"], "Failed");
}

/// A Browser may be old when this process first sees it: it started, or its API server did.
#[tokio::test]
async fn an_old_browser_that_was_just_seen_waits_for_its_config() {
    let (server, client, requests) = Server::new(browser(60), |_| not_found());
    let next = pass(&shared(None), &client, &browser(60)).await.unwrap();
    assert!(matches!(next, Next::Within(wait) if wait <= Duration::from_secs(5)));
    assert_eq!(requests.made(), [format!("PATCH {BROWSER}/status")]);
    assert_eq!(server.status()["phase"], "Pending");
}

#[tokio::test]
async fn a_pod_that_runs_by_now_ends_no_session_though_the_cache_has_it_pending() {
    let (server, client, _) = Server::new(browser(3600), |request| match request {
        _ if request == format!("GET {POD}") => (200, pod("new", "Running")),
        _ => not_found(),
    });
    let controller = shared(Some(pod("new", "Pending")));
    pass(&controller, &client, &browser(3600)).await.unwrap();
    assert_eq!(server.status()["phase"], "Running");
}

/// The event of the status begins no pass, and the next one may begin because the pod is gone.
#[tokio::test]
async fn a_pod_that_the_status_and_the_cache_show_is_not_remembered() {
    let (server, client, _) = Server::new(browser(60), |_| not_found());
    let controller = shared(Some(pod("new", "Running")));
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert_eq!(server.status()["podUID"], "pod-new");
    let metadata = typed(browser(60)).metadata;
    assert!(controller.memory.created_pod(&metadata).is_none());
}

/// What is asked of the API server when a Browser is deleted whose pod the cache shows as pending, and the grace period of the
/// deletion.
async fn pod_of_deleted(live: &'static str) -> (Vec<String>, Value) {
    let mut deleted = browser(60);
    deleted["metadata"]["deletionTimestamp"] = json!(ago(1));
    let grace = Arc::new(Mutex::new(Value::Null));
    let seen = Arc::clone(&grace);
    let (client, requests) = scripted(move |request, body| {
        if request == format!("GET {POD}") {
            return (200, pod("new", live));
        }
        assert_eq!(body["preconditions"]["uid"], "pod-new");
        *seen.lock().unwrap() = body["gracePeriodSeconds"].clone();
        (200, pod("new", live))
    });
    let controller = shared(Some(pod("new", "Pending")));
    pass(&controller, &client, &deleted).await.unwrap();
    let grace = grace.lock().unwrap().clone();
    (requests.made(), grace)
}

#[tokio::test]
async fn a_pod_that_runs_by_now_keeps_its_grace_period_though_the_cache_has_it_pending() {
    let expected = [format!("GET {POD}"), format!("DELETE {POD}")];
    let (requests, grace) = pod_of_deleted("Running").await;
    assert_eq!(requests, expected);
    assert_eq!(grace, Value::Null);
    let (requests, grace) = pod_of_deleted("Pending").await;
    assert_eq!(requests, expected);
    assert_eq!(grace, 0);
}

/// Whatever the answer says that the pod of that UID is gone.
async fn check_gone(answer: (u16, Value)) {
    let mut gone = browser(60);
    gone["metadata"]["deletionTimestamp"] = json!(ago(1));
    let (_, client, requests) = Server::new(gone.clone(), move |_| answer.clone());
    let controller = shared(Some(pod("new", "Running")));
    let next = pass(&controller, &client, &gone).await.unwrap();
    assert_eq!(next, Next::Change);
    let expected = [format!("DELETE {POD}"), format!("PATCH {BROWSER}")];
    assert_eq!(requests.made(), expected);
}

#[tokio::test]
async fn a_pod_that_is_gone_is_not_waited_for_though_the_cache_shows_it() {
    check_gone(not_found()).await;
    check_gone((409, status(409, "Conflict", "the UID in the precondition"))).await;
}

/// Its status could not be written, so nothing but our memory says that there was one.
#[tokio::test(start_paused = true)]
async fn a_pod_that_no_cache_ever_showed_is_not_made_again() {
    let (server, client, requests) = Server::new(browser(60), |request| match request {
        CONFIGS => (200, list(&[config()])),
        _ => not_found(),
    });
    let controller = shared(None);
    let created: SeenPod = serde_json::from_value(pod_of("new")).unwrap();
    let metadata = typed(browser(60)).metadata;
    controller.memory.created(&metadata, Arc::new(created));
    tokio::time::advance(Duration::from_secs(6)).await;
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert_eq!(server.status()["reason"], "PodLost");
    assert_eq!(
        requests.made(),
        [format!("GET {POD}"), format!("PATCH {BROWSER}/status")]
    );
}

fn unmarked(age: i64) -> Value {
    let mut browser = browser(age);
    browser["metadata"]["finalizers"] = json!([]);
    browser
}

/// An API server whose policies deny everything but statuses.
fn denying(browser: Value) -> (Arc<Mutex<Value>>, Client, Requests) {
    let state = Arc::new(Mutex::new(browser));
    let shared = Arc::clone(&state);
    let (client, requests) = scripted(move |request, body| {
        if request == format!("PATCH {BROWSER}/status") {
            let mut browser = shared.lock().unwrap();
            json_patch::merge(&mut browser, &body);
            return (200, browser.clone());
        }
        (
            403,
            status(403, "Forbidden", "finalizers are not welcome here"),
        )
    });
    (state, client, requests)
}

#[tokio::test]
async fn a_refused_finalizer_is_said_and_no_pod_is_created_without_it() {
    let (state, client, requests) = denying(unmarked(60));
    let error = pass(&shared(None), &client, &unmarked(60))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "MetadataRefused");
    let status = state.lock().unwrap()["status"].clone();
    assert_eq!(status["phase"], "Pending");
    let conditions = status["conditions"].as_array().unwrap();
    let created = conditions
        .iter()
        .find(|one| one["type"] == "PodCreated")
        .unwrap();
    assert_eq!(created["reason"], "MetadataRefused");
    let message = created["message"].as_str().unwrap();
    assert!(message.contains("not welcome"), "{message}");
    assert_eq!(
        requests.made(),
        [
            format!("PATCH {BROWSER}"),
            format!("PATCH {BROWSER}/status")
        ]
    );
}

#[tokio::test]
async fn a_finalizer_that_stays_refused_fails_the_browser() {
    let (state, client, _) = denying(unmarked(3600));
    let controller = shared(None);
    let seen = typed(unmarked(3600));
    controller
        .memory
        .first_seen(&seen.metadata, Timestamp::UNIX_EPOCH);
    pass(&controller, &client, &unmarked(3600)).await.unwrap();
    let status = state.lock().unwrap()["status"].clone();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["reason"], "MetadataRefused");
    assert!(status["message"].as_str().unwrap().contains("not welcome"));
}

/// A session that runs is not ended because somebody changed its labels, and its status goes on.
#[tokio::test]
async fn a_refused_label_ends_no_session() {
    let mut relabelled = browser(3600);
    relabelled["metadata"]["labels"] = json!({});
    let (state, client, _) = denying(relabelled.clone());
    let controller = shared(Some(pod("new", "Running")));
    pass(&controller, &client, &relabelled).await.unwrap();
    assert_eq!(state.lock().unwrap()["status"]["phase"], "Running");
}

/// Conditions go as a whole list, so a condition of another writer that came meanwhile would be lost.
#[tokio::test]
async fn a_status_with_conditions_names_the_version_it_was_made_from() {
    let (server, client, _) = Server::new(browser(60), |_| not_found());
    let controller = shared(Some(pod("new", "Running")));
    pass(&controller, &client, &browser(60)).await.unwrap();
    let patches = server.patches.lock().unwrap().clone();
    assert_eq!(patches.len(), 1);
    assert_eq!(
        patches[0]["metadata"],
        json!({ "uid": "new", "resourceVersion": "7" })
    );
}

/// What becomes of a pass whose first write is answered so.
async fn answered(answer: (u16, Value)) -> Result<Next, Error> {
    let (client, _) = scripted(move |_, _| answer.clone());
    pass(&shared(Some(pod("new", "Running"))), &client, &browser(60)).await
}

#[tokio::test]
async fn an_object_that_is_not_found_is_looked_at_again() {
    assert_eq!(answered(not_found()).await.unwrap(), Next::Resync);
}

/// An API server that does not serve the kind yet says nothing about its objects.
#[tokio::test]
async fn a_kind_that_is_not_served_is_tried_again_soon() {
    let error = answered((404, json!("404 page not found\n")))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "WriteStatus");
}

mod faults;
mod milestones;
