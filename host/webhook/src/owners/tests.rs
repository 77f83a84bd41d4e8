use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use futures::future::join_all;
use kube::Client;
use kube::core::GroupVersionKind;
use podloom_turns::Limits;
use serde_json::{Value, json};
use tower::service_fn;

use super::{Cache, Found, Kept, OwnerKind, Owners, UnknownOwners};
use crate::PeerTurns;
use crate::review::{ReviewRequest, Unavailable, parse};

const REPLICA_SETS: &str = "system:serviceaccount:kube-system:replicaset-controller";

/// As which kube-controller-manager runs in these tests, too.
const MANAGER: &str = "controllers";

/// An API server that has one object, or answers with this code. Remembers what it was asked.
#[derive(Clone)]
struct Server {
    code: Arc<AtomicU16>,
    object: Value,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn with(selector: &Value) -> Self {
        let object =
            json!({ "metadata": { "uid": "1", "name": "web" }, "spec": { "selector": selector } });
        Self::answering(200, object)
    }

    fn answering(code: u16, object: Value) -> Self {
        Self {
            code: Arc::new(code.into()),
            object,
            asked: Arc::default(),
        }
    }

    fn owners(&self, others: Vec<OwnerKind>, unknown: UnknownOwners) -> Owners {
        let server = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move {
                server
                    .asked
                    .lock()
                    .unwrap()
                    .push(request.uri().path().to_owned());
                // Long enough for all who come together.
                tokio::time::sleep(Duration::from_millis(10)).await;
                let code = StatusCode::from_u16(server.code()).unwrap();
                let response = Response::builder().status(code);
                Ok::<_, std::convert::Infallible>(
                    response
                        .body(Body::from(server.object.to_string()))
                        .unwrap(),
                )
            }
        });
        let turns = PeerTurns::new(Limits::for_each(4, 1024));
        let (client, managers) = (Client::new(service, "default"), vec![MANAGER.to_owned()]);
        Owners::new(client, others, managers, unknown, turns)
    }

    fn code(&self) -> u16 {
        self.code.load(Ordering::Relaxed)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn failure(code: u16, reason: &str) -> Server {
    Server::answering(
        code,
        json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no" }),
    )
}

/// Owners of an API server that has none.
pub(crate) fn of_tests() -> Owners {
    failure(404, "NotFound").owners(Vec::new(), UnknownOwners::Ignore)
}

fn owned(api_version: &str, kind: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": "web", "uid": "1", "controller": true })
}

/// The review of a pod with two labels, from this account.
fn review(user: &Value, owner: &Value) -> ReviewRequest {
    let metadata =
        json!({ "labels": { "app": "web", "tier": "front" }, "ownerReferences": [owner] });
    let request = json!({
        "uid": "1", "operation": "CREATE", "namespace": "team-a", "userInfo": user,
        "kind": { "version": "v1", "kind": "Pod" }, "object": { "metadata": metadata },
    });
    let body = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    parse(&body.to_string()).expect("it is a review")
}

async fn kept(owners: &Owners, review: &ReviewRequest) -> Result<Kept, Unavailable> {
    let now = tokio::time::Instant::now().into_std();
    owners.kept(review, now + Duration::from_secs(5)).await
}

fn app() -> Value {
    json!({ "matchLabels": { "app": "web" } })
}

/// Kinds, their controllers, and where their objects are.
const ROWS: [(&str, &str, &str, &str); 5] = [
    (
        "apps/v1",
        "ReplicaSet",
        "replicaset-controller",
        "apps/v1/namespaces/team-a/replicasets",
    ),
    (
        "apps/v1",
        "StatefulSet",
        "statefulset-controller",
        "apps/v1/namespaces/team-a/statefulsets",
    ),
    (
        "apps/v1",
        "DaemonSet",
        "daemon-set-controller",
        "apps/v1/namespaces/team-a/daemonsets",
    ),
    (
        "batch/v1",
        "Job",
        "job-controller",
        "batch/v1/namespaces/team-a/jobs",
    ),
    (
        "v1",
        "ReplicationController",
        "replication-controller",
        "v1/namespaces/team-a/replicationcontrollers",
    ),
];

#[tokio::test]
async fn each_controller_keeps_the_labels_of_its_selector_and_others_keep_none() {
    let account =
        |name: &str| json!({ "username": format!("system:serviceaccount:kube-system:{name}") });
    for (api_version, kind, own, path) in ROWS {
        for (_, _, controller, _) in ROWS {
            let server = Server::with(&app());
            let owners = server.owners(Vec::new(), UnknownOwners::Ignore);
            let review = review(&account(controller), &owned(api_version, kind));
            let kept = kept(&owners, &review).await.expect("an answer");
            assert_eq!(
                kept.labels.contains(&"app".to_owned()),
                own == controller,
                "{kind} {controller}"
            );
            assert!(!kept.labels.contains(&"tier".to_owned()), "{kind}");
            assert_eq!(
                kept.note.is_none(),
                own == controller,
                "{kind} {controller}"
            );
            let asked = server.asked();
            assert_eq!(asked.len(), usize::from(own == controller), "{asked:?}");
            assert!(
                asked
                    .iter()
                    .all(|asked| asked.ends_with(&format!("{path}/web"))),
                "{asked:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_controller_manager_and_masters_may_create_pods_of_any_kind() {
    let server = Server::with(&app());
    for (user, counts) in [
        (
            json!({ "username": "system:kube-controller-manager" }),
            true,
        ),
        (json!({ "username": MANAGER }), true),
        (
            json!({ "username": "admin", "groups": ["system:masters"] }),
            true,
        ),
        (
            json!({ "username": "alice", "groups": ["system:authenticated"] }),
            false,
        ),
        (
            json!({ "username": "system:serviceaccount:team-a:replicaset-controller" }),
            false,
        ),
        (json!({}), false),
    ] {
        let owners = server.owners(Vec::new(), UnknownOwners::Ignore);
        let kept = kept(&owners, &review(&user, &owned("apps/v1", "ReplicaSet")))
            .await
            .expect("an answer");
        assert_eq!(!kept.labels.is_empty(), counts, "{user}");
    }
}

#[tokio::test]
async fn an_owner_that_is_not_what_the_pod_says_protects_nothing_or_all() {
    let user = json!({ "username": REPLICA_SETS });
    let replica_set = owned("apps/v1", "ReplicaSet");
    let with = |field: &str, value: &str| {
        let mut owner = replica_set.clone();
        owner[field] = json!(value);
        owner
    };
    for (owner, why) in [
        (with("uid", "2"), "which does not exist with this UID"),
        (with("name", "../pods/web"), "which cannot exist"),
        (
            with("apiVersion", "example.com/v1"),
            "whose kind --pod-owner does not name",
        ),
        (
            with("kind", "ConfigMap"),
            "whose kind --pod-owner does not name",
        ),
    ] {
        for (unknown, labels, how_many) in [
            (UnknownOwners::Ignore, &[][..], "no label"),
            (UnknownOwners::Protect, &["app", "tier"][..], "every label"),
        ] {
            let owners = Server::with(&app()).owners(Vec::new(), unknown);
            let kept = kept(&owners, &review(&user, &owner))
                .await
                .expect("an answer");
            assert_eq!(*kept.labels, *labels, "{owner}");
            let is_named = kept.unknown_kind.is_some();
            assert_eq!(is_named, why.contains("--pod-owner"), "{owner}");
            let news = [(); 2].map(|()| owners.may_name("v1 ConfigMap"));
            assert_eq!(news, [true, false]);
            let note = kept.note.unwrap_or_default();
            assert!(note.starts_with(how_many) && note.ends_with(why), "{note}");
        }
    }
}

/// Nothing is asked, and nothing is noted.
#[tokio::test]
async fn a_pod_without_a_controller_and_a_pod_of_a_browser_cost_nothing() {
    let server = Server::with(&app());
    let owners = server.owners(Vec::new(), UnknownOwners::Protect);
    let mut only_owner = owned("apps/v1", "ReplicaSet");
    only_owner["controller"] = json!(false);
    for owner in [
        only_owner,
        owned("selenosis.io/v1", "Browser"),
        owned("browser.selenosis.io/v1", "Browser"),
    ] {
        let found = kept(
            &owners,
            &review(&json!({ "username": REPLICA_SETS }), &owner),
        )
        .await;
        assert_eq!(found.expect("an answer"), Kept::default(), "{owner}");
    }
    assert_eq!(server.asked(), [""; 0]);
}

#[tokio::test]
async fn other_kinds_are_known_by_option() {
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "CloneSet");
    let account = "system:serviceaccount:kruise-system:kruise-manager".to_owned();
    let server = Server::with(&app());
    let owners = server.owners(
        vec![OwnerKind::new(&kind, account.clone())],
        UnknownOwners::Ignore,
    );
    // Whatever version the owner has.
    let owner = owned("apps.kruise.io/v1beta1", "CloneSet");
    let found = kept(&owners, &review(&json!({ "username": account }), &owner))
        .await
        .expect("an answer");
    assert_eq!(*found.labels, ["app"]);
    assert_eq!(
        server.asked(),
        ["/apis/apps.kruise.io/v1alpha1/namespaces/team-a/clonesets/web"]
    );
}

#[tokio::test]
async fn pods_of_one_owner_that_come_together_ask_once() {
    let (user, owner) = (
        json!({ "username": REPLICA_SETS }),
        owned("apps/v1", "ReplicaSet"),
    );
    for (server, questions) in [
        (Server::with(&app()), 1),
        (failure(404, "NotFound"), 1),
        (failure(403, "Forbidden"), 1),
    ] {
        let owners = server.owners(Vec::new(), UnknownOwners::Ignore);
        let review = review(&user, &owner);
        let all = join_all((0..50).map(|_| kept(&owners, &review))).await;
        assert_eq!(server.asked().len(), questions, "{}", server.code());
        assert_eq!(
            all.iter().filter(|kept| kept.is_ok()).count(),
            if server.code() == 403 { 0 } else { 50 }
        );
    }
}

/// Seen: whoever reached the webhook could have all others wait for their owners.
#[tokio::test(start_paused = true)]
async fn a_stranger_who_invents_owners_keeps_nobody_waiting() {
    let owners = Server::with(&app()).owners(Vec::new(), UnknownOwners::Ignore);
    let owners = Arc::new(owners);
    let ask = |peer: u8, uid: u16| {
        let mut owner = owned("apps/v1", "ReplicaSet");
        owner["uid"] = json!(uid.to_string());
        let mut review = review(&json!({ "username": REPLICA_SETS }), &owner);
        review.peer = Some([10, 0, 0, peer].into());
        let owners = Arc::clone(&owners);
        async move { kept(&owners, &review).await.map(|kept| kept.labels) }
    };
    let strangers: Vec<_> = (1..401).map(|uid| tokio::spawn(ask(66, uid))).collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begun = tokio::time::Instant::now();
    // Even if the stranger asks for the same one.
    for uid in [1, 400, 401] {
        ask(1, uid).await.expect("an answer");
    }
    let waited = begun.elapsed();
    assert!(waited <= Duration::from_millis(40), "{waited:?}");
    for stranger in strangers {
        stranger.await.expect("no panic").expect("in the end");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_read_counts_for_a_while() {
    let (user, owner) = (
        json!({ "username": REPLICA_SETS }),
        owned("apps/v1", "ReplicaSet"),
    );
    let review = review(&user, &owner);
    for (server, seconds) in [
        (Server::with(&app()), 60),
        (failure(404, "NotFound"), 2),
        (failure(403, "Forbidden"), 1),
    ] {
        let owners = server.owners(Vec::new(), UnknownOwners::Ignore);
        for (wait, questions) in [(0, 1), (seconds * 1000 - 500, 1), (1000, 2)] {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            let _ = kept(&owners, &review).await;
            assert_eq!(
                server.asked().len(),
                questions,
                "{} after {wait} ms",
                server.code()
            );
        }
    }
    // A selector that is too large to be remembered counts all the same.
    let labels: serde_json::Map<_, _> =
        (0..100).map(|i| (format!("key-{i}"), json!("a"))).collect();
    let server = Server::with(&json!({ "matchLabels": labels }));
    let owners = server.owners(Vec::new(), UnknownOwners::Ignore);
    for questions in [1, 2] {
        assert_eq!(
            kept(&owners, &review)
                .await
                .expect("an answer")
                .labels
                .len(),
            100
        );
        assert_eq!(server.asked().len(), questions);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_known_of_an_owner_counts_while_the_api_server_does_not_say_it() {
    let user = json!({ "username": REPLICA_SETS });
    let review_of = |uid: &str| {
        let mut owner = owned("apps/v1", "ReplicaSet");
        owner["uid"] = json!(uid);
        review(&user, &owner)
    };
    let (known, unknown) = (review_of("1"), review_of("2"));
    let server = Server::with(&app());
    let owners = server.owners(Vec::new(), UnknownOwners::Ignore);
    for (code, questions) in [(200, 1), (403, 2), (500, 3), (200, 4)] {
        server.code.store(code, Ordering::Relaxed);
        let found = kept(&owners, &known).await.expect("it is known");
        assert_eq!(*found.labels, ["app"], "{code}");
        assert_eq!(server.asked().len(), questions, "{code}");
        tokio::time::sleep(Duration::from_secs(61)).await;
    }
    server.code.store(403, Ordering::Relaxed);
    assert!(kept(&owners, &unknown).await.is_err());
}

/// Many owners are remembered, and not all of them for ever.
#[tokio::test]
async fn the_memory_is_bounded() {
    let cache = Cache::default();
    for index in 0..3000 {
        let found = cache.get(index.to_string(), async || Ok(Some(Found::default())));
        found.await.expect("an answer");
    }
    assert!((1024..=2048).contains(&cache.len()), "{}", cache.len());
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_review_fails_and_names_the_right() {
    let (user, owner) = (
        json!({ "username": REPLICA_SETS }),
        owned("apps/v1", "ReplicaSet"),
    );
    let review = review(&user, &owner);
    let why = async |server: Server| {
        let owners = server.owners(Vec::new(), UnknownOwners::Protect);
        kept(&owners, &review)
            .await
            .expect_err("nobody knows")
            .to_string()
    };
    let text = why(failure(403, "Forbidden")).await;
    let expected = "the controller of the pod could not be read, ReplicaSet web: the webhook may not get replicasets in namespace team-a, so apply the roles that podloom rbac prints";
    assert_eq!(text, expected);
    let text = why(failure(500, "InternalError")).await;
    assert!(
        text.ends_with("the API server does not answer; try again in a second"),
        "{text}"
    );
    // The deadline of the review.
    let owners = Server::with(&app()).owners(Vec::new(), UnknownOwners::Ignore);
    let soon = Instant::now() + Duration::from_millis(1);
    let late = owners.kept(&review, soon).await;
    assert!(matches!(late, Err(Unavailable::Busy)));
}
