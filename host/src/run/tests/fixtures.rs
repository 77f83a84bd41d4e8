//! Shared by the tests of the operator's tasks: minimal API servers, and a duty that exists only in tests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::client::Body;
use podloom_api::{SelenosisKind, crd};
use podloom_controllers::duties::{
    Chain, Group, Names, Need, OwnKind, ResourceScope, Right, RightScope, Row, Switch, Writers,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::{BoxError, service_fn};

/// A duty whose kind is cluster-scoped and that needs no chain.
pub(crate) const CLUSTERS: Row = Row {
    name: "clusters",
    switch: Switch::Controllers,
    names: Names::WithDuty,
    kinds: &[OwnKind {
        group: Group::Fixed("example.com"),
        version: "v1",
        plural: "clusters",
        scope: ResourceScope::Cluster,
        definition: |api| crd(api, SelenosisKind::Browser),
        writers: Writers::Admin,
        is_optional: false,
        clients: &[],
    }],
    rights: &[Right {
        group: Group::Fixed("example.com"),
        resource: "clusters",
        subresource: None,
        verbs: &["list", "watch"],
        scope: RightScope::Cluster,
        object: None,
        need: Need::Required,
        why: "follows clusters",
    }],
    aggregated: None,
    chain: Chain::Unused,
};

/// An API server that stores one Lease.
#[derive(Clone, Default)]
pub(crate) struct Leases(Arc<Mutex<Stored>>);

#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) lease: Option<Lease>,
    version: u64,
    pub(crate) is_down: bool,
    /// How many of the next requests get no answer, as on a dead connection.
    pub(crate) lost: u32,
    /// How long an answer takes after the request took effect.
    pub(crate) delay: Duration,
}

impl Leases {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                if server.with(|stored| stored.is_lost()) {
                    future::pending::<()>().await;
                }
                let answer = server.answer(&parts.method, &body);
                sleep(server.with(|stored| stored.delay)).await;
                answer
            }
        });
        Client::new(service, "podloom")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> Result<Response<Body>, BoxError> {
        let mut stored = self.0.lock().expect("no panic");
        if stored.is_down {
            return Err("connection refused".into());
        }
        let sent: Option<Lease> = serde_json::from_slice(body).ok();
        let is_current = match (&stored.lease, &sent) {
            (Some(stored), Some(sent)) => {
                stored.metadata.resource_version == sent.metadata.resource_version
            }
            (None, Some(sent)) => sent.metadata.resource_version.is_none(),
            _ => false,
        };
        let exists = stored.lease.is_some();
        match *method {
            Method::GET if exists => {}
            Method::GET => return respond(StatusCode::NOT_FOUND, &status(404, "NotFound")),
            Method::PUT | Method::POST if is_current => stored.write(sent),
            _ => return respond(StatusCode::CONFLICT, &status(409, "Conflict")),
        }
        respond(StatusCode::OK, &serde_json::to_value(&stored.lease)?)
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Stored) -> T) -> T {
        change(&mut self.0.lock().expect("no panic"))
    }

    pub(crate) fn holder(&self) -> Option<String> {
        self.with(|stored| {
            stored
                .lease
                .as_ref()?
                .spec
                .as_ref()?
                .holder_identity
                .clone()
        })
    }
}

impl Stored {
    fn is_lost(&mut self) -> bool {
        let left = self.lost.checked_sub(1);
        self.lost = left.unwrap_or_default();
        left.is_some()
    }

    pub(crate) fn write(&mut self, lease: Option<Lease>) {
        self.version += 1;
        self.lease = lease;
        if let Some(lease) = &mut self.lease {
            lease.metadata.resource_version = Some(self.version.to_string());
        }
    }
}

fn status(code: u16, reason: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason })
}

fn respond(status: StatusCode, body: &Value) -> Result<Response<Body>, BoxError> {
    let body = Body::from(serde_json::to_vec(body)?);
    Ok(Response::builder().status(status).body(body)?)
}

/// What an API server forbids everybody to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// Discovery: which kinds it serves.
    Kinds,
    /// Access reviews: which rights an account has.
    Rights,
}

/// An API server with discovery and access reviews only, and how it behaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) has_no_browsers: bool,
    /// It serves our kinds with the other scope.
    pub(crate) has_wrong_scope: bool,
    /// The resource to which we have no right.
    pub(crate) denied: Option<&'static str>,
    pub(crate) is_silent: bool,
    /// It rejects all credentials.
    pub(crate) rejects_credentials: bool,
    /// It answers discovery or access reviews with 403.
    pub(crate) forbidden: Option<Forbidden>,
    /// How many discovery requests it got.
    pub(crate) discoveries: usize,
    /// How many access reviews it got.
    pub(crate) reviews: usize,
}

impl Cluster {
    pub(crate) fn client(cluster: &Arc<Mutex<Self>>) -> Client {
        let cluster = Arc::clone(cluster);
        let service = service_fn(move |request: Request<Body>| {
            let cluster = Arc::clone(&cluster);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let now = cluster.lock().expect("no panic").clone();
                if now.is_silent {
                    return Err("connection refused".into());
                }
                if parts.uri.path().starts_with("/apis/selenosis.io/") {
                    cluster.lock().expect("no panic").discoveries += 1;
                } else if parts.method == Method::POST {
                    cluster.lock().expect("no panic").reviews += 1;
                }
                if now.rejects_credentials {
                    let answer = json!({ "kind": "Status", "status": "Failure", "code": 401, "reason": "Unauthorized", "message": "Unauthorized" });
                    let body = Body::from(serde_json::to_vec(&answer)?);
                    return Ok(Response::builder().status(401).body(body)?);
                }
                let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
                let (status, answer) = answer(&now, parts.uri.path(), sent);
                let body = Body::from(serde_json::to_vec(&answer)?);
                Ok::<_, BoxError>(Response::builder().status(status).body(body)?)
            }
        });
        Client::new(service, "default")
    }
}

fn answer(cluster: &Cluster, path: &str, sent: Value) -> (u16, Value) {
    let asked = match path.starts_with("/apis/authorization.k8s.io/") {
        true => Forbidden::Rights,
        false => Forbidden::Kinds,
    };
    if cluster.forbidden == Some(asked) {
        return (403, status(403, "Forbidden"));
    }
    if path.starts_with("/apis/selenosis.io/") {
        let kinds: &[&str] = if cluster.has_no_browsers {
            &["browserconfigs"]
        } else {
            &["browsers", "browserconfigs"]
        };
        let resources: Vec<Value> = kinds
            .iter()
            .map(|name| json!({ "name": name, "singularName": "", "namespaced": !cluster.has_wrong_scope, "kind": "A", "verbs": ["list"] }))
            .collect();
        return (
            200,
            json!({ "kind": "APIResourceList", "groupVersion": "selenosis.io/v1", "resources": resources }),
        );
    }
    if path.starts_with("/apis/example.com/") {
        let clusters = json!({ "name": "clusters", "singularName": "", "namespaced": cluster.has_wrong_scope, "kind": "Cluster", "verbs": ["list"] });
        return (
            200,
            json!({ "kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": [clusters] }),
        );
    }
    let mut review = sent;
    let resource = &review["spec"]["resourceAttributes"]["resource"];
    let is_denied = cluster.denied.is_some_and(|denied| *resource == denied);
    review["status"] = json!({ "allowed": !is_denied, "userInfo": { "username": "somebody" } });
    (201, review)
}
