//! What a pass makes of answers that are lost, late or wrong.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::runtime::watcher::Event;
use podloom_engine::clock::Clock;
use podloom_engine::events::{self, Events};
use podloom_engine::kind::Context;
use podloom_engine::pass::Next;
use podloom_engine::testing::context;
use podloom_scripted::{SILENCE, scripted, status};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::{
    BROWSER, BROWSERS, CONFIGS, CREATE, POD, Server, ago, browser, config, list, not_found, pass,
    pass_in, pod, pod_of, shared, typed, unmarked,
};
use crate::kind::BrowserKind;
use crate::kind::tests::controller_of;
use crate::pod::SeenPod;

/// The controller, with a configuration for the Browser.
fn configured(controller: BrowserKind) -> Arc<BrowserKind> {
    let configs = &controller.caches.configs;
    let config = serde_json::from_value(config()).unwrap();
    configs.show(None, &Event::Apply(config));
    Arc::new(controller)
}

/// The same controller, which has seen the Browser for longer than anything waits.
fn long_known(controller: Arc<BrowserKind>) -> Arc<BrowserKind> {
    let seen = typed(browser(0));
    controller
        .memory
        .first_seen(&seen.metadata, Timestamp::UNIX_EPOCH);
    controller
}

fn fresh(phase: &str) -> Value {
    let mut pod = pod("new", phase);
    pod["metadata"]["creationTimestamp"] = json!(ago(1));
    pod
}

fn typed_pod(pod: Value) -> Arc<SeenPod> {
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// A proxy's 404 is no word of the API server about the object.
fn plain_not_found() -> (u16, Value) {
    (404, json!("404 page not found\n"))
}

fn webhook_down() -> (u16, Value) {
    let message = "Internal error occurred: failed calling webhook";
    (500, status(500, "InternalError", message))
}

fn condition(status: &Value, type_: &str) -> Value {
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|one| one["type"] == type_);
    found.unwrap().clone()
}

/// A webhook may take longer than anybody waits for it.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_said_and_tried_again() {
    let (server, client, _) = Server::new(browser(60), |request| match request {
        CREATE => (SILENCE, json!({})),
        _ => not_found(),
    });
    let begun = tokio::time::Instant::now();
    let error = pass(&configured(controller_of(None)), &client, &browser(60))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "PodForbidden");
    assert!(begun.elapsed() <= Duration::from_secs(30));
    let created = condition(&server.status(), "PodCreated");
    let message = created["message"].as_str().unwrap();
    assert!(message.contains("no answer"), "{message}");
}

/// The pod was created, the answer was lost, and its watch is behind.
#[tokio::test]
async fn a_pod_whose_answer_was_lost_ends_no_session() {
    let (server, client, _) = Server::new(browser(3600), |request| match request {
        CREATE => webhook_down(),
        CONFIGS => (200, list(&[config()])),
        _ if request == format!("GET {POD}") => (200, fresh("Pending")),
        _ => not_found(),
    });
    let controller = long_known(configured(controller_of(None)));
    pass(&controller, &client, &browser(3600)).await.unwrap();
    assert_eq!(server.status()["phase"], "Pending");
    assert_eq!(server.status()["podUID"], "pod-new");
}

fn unpullable() -> Value {
    let mut pod = fresh("Pending");
    pod["status"]["containerStatuses"] = json!([
        { "name": "browser", "image": "i", "restartCount": 0, "state": { "waiting": { "reason": "ErrImagePull" } } },
    ]);
    pod
}

/// A leader made the pod and died before it wrote the status; the next one sees the pod in its cache, and somebody deletes it.
#[tokio::test]
async fn a_pod_that_goes_while_its_end_is_confirmed_is_not_made_again() {
    let (server, client, requests) = Server::new(browser(60), |request| match request {
        CREATE => (201, fresh("Pending")),
        _ => not_found(),
    });
    let controller = configured(controller_of(Some(unpullable())));
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert_eq!(server.status()["reason"], "PodLost");
    assert!(!requests.made().iter().any(|made| made == CREATE));
}

#[tokio::test]
async fn the_reason_of_an_eviction_is_known_while_the_end_is_confirmed() {
    let (server, client, _) = Server::new(browser(60), |_| not_found());
    let controller = configured(controller_of(Some(unpullable())));
    let mut evicted = unpullable();
    evicted["status"]["conditions"] = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI" }]);
    let metadata = typed(browser(60)).metadata;
    controller
        .memory
        .pod_went(&metadata, &typed_pod(evicted), false);
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert_eq!(server.status()["reason"], "EvictionByEvictionAPI");
}

/// Its status could not be written while the cache showed it.
#[tokio::test(start_paused = true)]
async fn a_pod_that_only_the_cache_showed_is_not_made_again() {
    let (client, _) = scripted(|_, _| webhook_down());
    let showing = configured(controller_of(Some(fresh("Pending"))));
    pass(&showing, &client, &browser(60)).await.unwrap_err();
    tokio::time::advance(Duration::from_secs(6)).await;
    let (server, client, requests) = Server::new(browser(60), |request| match request {
        CREATE => (201, fresh("Pending")),
        _ => not_found(),
    });
    let gone = configured(BrowserKind {
        memory: showing.memory.clone(),
        ..controller_of(None)
    });
    pass(&gone, &client, &browser(60)).await.unwrap();
    assert_eq!(server.status()["reason"], "PodLost");
    assert!(!requests.made().iter().any(|made| made == CREATE));
}

fn unlabelled(age: i64) -> Value {
    let mut browser = browser(age);
    browser["metadata"]["labels"] = json!({});
    browser
}

/// An API server that refuses metadata so, keeps statuses, and answers the rest as the test says.
fn refusing(
    browser: Value,
    refusal: (u16, Value),
    rest: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> (Server, Client, podloom_scripted::Requests) {
    let (server, _, _) = Server::new(browser, |_| not_found());
    let state = server.clone();
    let (client, requests) = scripted(move |request, body| {
        if request == format!("PATCH {BROWSER}/status") {
            let mut browser = state.browser.lock().unwrap();
            json_patch::merge(&mut browser, &body);
            return (200, browser.clone());
        }
        if request == BROWSERS {
            return (
                200,
                list(std::slice::from_ref(&*state.browser.lock().unwrap())),
            );
        }
        match request == format!("PATCH {BROWSER}") {
            true => refusal.clone(),
            false => rest(request),
        }
    });
    (server, client, requests)
}

fn forbidden() -> (u16, Value) {
    (403, status(403, "Forbidden", "not welcome here"))
}

#[tokio::test]
async fn a_refused_label_spares_no_look_at_the_api_server() {
    let (server, client, requests) =
        refusing(unlabelled(60), forbidden(), |request| match request {
            CONFIGS => (200, list(&[config()])),
            CREATE => (201, fresh("Pending")),
            _ => not_found(),
        });
    let controller = long_known(shared(None));
    pass(&controller, &client, &unlabelled(60)).await.unwrap();
    assert!(requests.made().iter().any(|made| made == CREATE));
    assert_eq!(server.status()["phase"], "Pending");
}

const EVENTS: &str = "POST /apis/events.k8s.io/v1/namespaces/team/events";

#[tokio::test(start_paused = true)]
async fn a_refused_label_is_told_and_not_tried_at_each_wake() {
    let labels = format!("PATCH {BROWSER}");
    let (_, client, requests) = refusing(unlabelled(60), forbidden(), |_| (201, json!({})));
    let controller = shared(Some(pod("new", "Running")));
    let count = |wanted: &str| {
        requests
            .made()
            .iter()
            .filter(|made| *made == wanted)
            .count()
    };
    for (wait, tries) in [(0, 1), (1, 1), (28, 1), (1, 2)] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        let metrics = events::metrics(&mut Registry::default());
        let (events, sending) = Events::new(&client, None, "Reconcile", metrics);
        let context = Context {
            events,
            ..context(client.clone())
        };
        pass_in(&controller, context, &unlabelled(60))
            .await
            .unwrap();
        sending.await;
        assert_eq!(count(&labels), tries);
        assert_eq!(count(EVENTS), tries);
    }
}

/// Webhooks deny with any status, and some do not answer.
#[tokio::test(start_paused = true)]
async fn metadata_that_a_webhook_does_not_let_through_is_said() {
    let busy = || (503, status(503, "ServiceUnavailable", "denied"));
    for answer in [webhook_down(), busy(), (SILENCE, json!({}))] {
        let (server, client, _) = refusing(unmarked(60), answer, |_| not_found());
        let error = pass(&shared(None), &client, &unmarked(60))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "MetadataRefused");
        let created = condition(&server.status(), "PodCreated");
        assert_eq!(created["reason"], "MetadataRefused");
    }
}

/// The finalizer is set, so its configuration was looked for, and something else holds it up.
#[tokio::test]
async fn a_refused_label_says_nothing_of_the_configuration() {
    let (server, client, _) = refusing(unlabelled(60), forbidden(), |request| match request {
        CONFIGS => (200, list(&[config()])),
        CREATE => webhook_down(),
        _ => not_found(),
    });
    let controller = configured(controller_of(None));
    pass(&controller, &client, &unlabelled(60))
        .await
        .unwrap_err();
    let resolved = condition(&server.status(), "ConfigResolved");
    assert_eq!(resolved["status"], "True");
}

/// After an outage of the API server its kubelet may not have said yet that it runs.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_late_is_looked_at_twice() {
    let late = || {
        let mut pod = pod("new", "Pending");
        pod["metadata"]["creationTimestamp"] = json!(ago(3600));
        pod
    };
    let (server, client, requests) = Server::new(browser(3600), move |request| match request {
        _ if request == format!("GET {POD}") => (200, late()),
        _ => not_found(),
    });
    let controller = configured(controller_of(Some(late())));
    let next = pass(&controller, &client, &browser(3600)).await.unwrap();
    assert!(
        matches!(next, Next::Within(wait) if wait <= Duration::from_secs(15)),
        "{next:?}"
    );
    assert_eq!(server.status()["phase"], "Pending");
    tokio::time::advance(Duration::from_secs(16)).await;
    let written = server.browser.lock().unwrap().clone();
    pass(&controller, &client, &written).await.unwrap();
    assert_eq!(server.status()["reason"], "CreationTimeout");
    let looks = requests.made();
    let looks = looks.iter().filter(|made| made.starts_with("GET"));
    assert_eq!(looks.count(), 2);
}

/// Old CRDs know no conditions: what is written comes back without them, each time.
#[tokio::test]
async fn deadlines_count_though_the_api_server_drops_what_we_write() {
    let starting = browser(60);
    let (client, requests) = scripted(move |request, _| match request {
        _ if request.starts_with("PATCH") => (200, starting.clone()),
        _ => not_found(),
    });
    let controller = configured(controller_of(Some(fresh("Pending"))));
    let next = pass(&controller, &client, &browser(60)).await.unwrap();
    assert!(
        matches!(next, Next::Within(wait) if wait <= Duration::from_mins(5)),
        "{next:?}"
    );
    let made = requests.made();
    assert_eq!(made, [format!("PATCH {BROWSER}/status")], "{made:?}");
}

/// A machine whose clock is ahead must not end what has just begun.
#[tokio::test]
async fn time_is_the_api_servers() {
    let (server, client, _) = Server::new(browser(0), |request| match request {
        CREATE => (201, fresh("Pending")),
        _ => not_found(),
    });
    let clock = Clock::new();
    let an_hour = SignedDuration::from_secs(3600);
    clock.heard(Timestamp::now() - an_hour, std::time::Instant::now());
    let context = Context {
        clock,
        ..context(client)
    };
    let controller = configured(controller_of(None));
    let object = browser(3600 + 60);
    pass_in(&controller, context, &object).await.unwrap();
    assert_eq!(server.status()["phase"], "Pending");
    let changed = server.status()["conditions"][0]["lastTransitionTime"].clone();
    let changed: Timestamp = changed.as_str().unwrap().parse().unwrap();
    let age = Timestamp::now().duration_since(changed);
    assert!(age > SignedDuration::from_mins(59), "{changed}");
}

/// A mutating policy may drop what we set, and answer that all is well.
#[tokio::test]
async fn metadata_that_is_taken_off_again_is_said() {
    let (server, client, _) = refusing(unmarked(60), (200, unmarked(60)), |_| not_found());
    let error = pass(&shared(None), &client, &unmarked(60))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "MetadataRefused");
    let created = condition(&server.status(), "PodCreated");
    let message = created["message"].as_str().unwrap();
    assert!(message.contains("removes"), "{message}");
}

/// The watch of Browsers is dead; somebody deleted this one meanwhile, and all that was remembered of it is forgotten.
#[tokio::test]
async fn no_pod_is_created_for_what_a_cache_alone_shows() {
    let mut deleted = browser(60);
    deleted["metadata"]["deletionTimestamp"] = json!(ago(1));
    let mut another = browser(1);
    another["metadata"]["uid"] = json!("another");
    for there in [deleted, another] {
        let (_, client, requests) = Server::new(there, |request| match request {
            CREATE => (201, fresh("Pending")),
            _ => not_found(),
        });
        let controller = configured(controller_of(None));
        pass(&controller, &client, &browser(60)).await.unwrap();
        let made = requests.made();
        assert_eq!(made.first().map(String::as_str), Some(BROWSERS));
        assert!(!made.iter().any(|made| made == CREATE), "{made:?}");
    }
}

/// The answer to its creation was lost, and the watch of pods is dead.
#[tokio::test]
async fn a_deleted_browser_waits_for_a_pod_that_nobody_knows_of() {
    let mut deleted = browser(60);
    deleted["status"] = json!({ "podUID": "pod-new" });
    deleted["metadata"]["deletionTimestamp"] = json!(ago(1));
    let (_, client, requests) = Server::new(deleted.clone(), |request| match request {
        _ if request == format!("GET {POD}") => (200, fresh("Running")),
        _ if request == format!("DELETE {POD}") => (200, fresh("Running")),
        _ => not_found(),
    });
    let controller = shared(None);
    pass(&controller, &client, &deleted).await.unwrap();
    let expected = [format!("GET {POD}"), format!("DELETE {POD}")];
    assert_eq!(requests.made(), expected);
    // One whose deletion was seen to its end needs no look.
    let mut going = fresh("Running");
    going["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    let metadata = typed(deleted.clone()).metadata;
    controller
        .memory
        .pod_went(&metadata, &typed_pod(going), false);
    pass(&controller, &client, &deleted).await.unwrap();
    assert_eq!(requests.made()[2..], [format!("PATCH {BROWSER}")]);
}

/// Its watch is behind, or somebody took our label off the pod.
#[tokio::test(start_paused = true)]
async fn a_deleted_browser_waits_for_a_pod_that_no_cache_ever_showed() {
    let mut deleted = browser(60);
    deleted["metadata"]["deletionTimestamp"] = json!(ago(1));
    let (_, client, requests) = Server::new(deleted.clone(), |request| match request {
        _ if request == format!("GET {POD}") => (200, fresh("Running")),
        _ if request == format!("DELETE {POD}") => (200, fresh("Running")),
        _ => not_found(),
    });
    let controller = shared(None);
    controller
        .memory
        .created(&typed(browser(60)).metadata, typed_pod(pod_of("new")));
    tokio::time::advance(Duration::from_secs(6)).await;
    pass(&controller, &client, &deleted).await.unwrap();
    assert_eq!(
        requests.made(),
        [format!("GET {POD}"), format!("DELETE {POD}")]
    );
}

#[tokio::test]
async fn a_proxy_that_finds_no_page_says_nothing_of_a_pod() {
    let mut running = browser(60);
    running["status"] = json!({ "phase": "Running", "podUID": "pod-new" });
    let (_, client, _) = Server::new(running.clone(), |_| plain_not_found());
    let error = pass(&shared(None), &client, &running).await.unwrap_err();
    assert_eq!(error.reason(), "ReadPod");
    running["metadata"]["deletionTimestamp"] = json!(ago(1));
    let error = pass(&shared(Some(pod("new", "Running"))), &client, &running)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "DeletePod");
}

/// The watches of Browsers and of pods are dead, and another operator made its pod meanwhile.
#[tokio::test]
async fn a_browser_that_has_another_pod_by_now_does_not_lose_it() {
    let mut there = browser(60);
    there["status"] = json!({ "phase": "Running", "podUID": "pod-new" });
    let (server, client, requests) = Server::new(there, |request| match request {
        _ if request == format!("GET {POD}") => (200, fresh("Running")),
        _ => not_found(),
    });
    let controller = configured(controller_of(None));
    pass(&controller, &client, &browser(60)).await.unwrap();
    assert_eq!(
        requests.made()[..2],
        [BROWSERS.to_owned(), format!("GET {POD}")]
    );
    assert_eq!(server.status()["phase"], "Running");
}

/// A webhook that guards finalizers, say.
#[tokio::test]
async fn a_finalizer_that_is_put_back_is_not_taken_off_without_end() {
    let mut deleted = browser(60);
    deleted["metadata"]["deletionTimestamp"] = json!(ago(1));
    let held = deleted.clone();
    let (client, requests) = scripted(move |request, _| match request {
        _ if request == format!("PATCH {BROWSER}") => (200, held.clone()),
        _ => not_found(),
    });
    let controller = shared(None);
    let error = pass(&controller, &client, &deleted).await.unwrap_err();
    assert_eq!(error.reason(), "MetadataRefused");
    let patched = |made: &&String| made.starts_with("PATCH");
    assert_eq!(requests.made().iter().filter(patched).count(), 1);
}
