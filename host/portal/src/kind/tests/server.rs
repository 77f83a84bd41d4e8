//! An API server in memory, as far as tunnels need one.

use std::sync::atomic::{AtomicUsize, Ordering};

use podloom_scripted::status;
use serde_json::{Value, json};

pub(super) const EXPOSE: &str =
    "/apis/portal.gosuda.org/v1alpha1/namespaces/team/portalexposes/shop";
pub(super) const EXPOSES: &str = "/apis/portal.gosuda.org/v1alpha1/namespaces/team/portalexposes";
pub(super) const SECRET: &str = "/api/v1/namespaces/team/secrets/shop-tunnel-identity";
pub(super) const SECRETS: &str = "/api/v1/namespaces/team/secrets";
pub(super) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/team/deployments/shop-tunnel";

/// The objects that the API server has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) expose: Value,
    /// No cache shows it yet.
    pub(super) is_expose_gone: bool,
    pub(super) secret: Option<Value>,
    pub(super) deployment: Option<Value>,
}

/// What an API server does with a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// It does it, and the answer is lost.
    Lost,
    /// It does not do it, and says so.
    Answer(u16, &'static str),
}

pub(super) fn next_fault(fault: &mut Option<(usize, Fault)>) -> Option<Fault> {
    match fault {
        Some((0, fault_now)) => {
            let fault_now = *fault_now;
            *fault = None;
            Some(fault_now)
        }
        Some((writes, _)) => {
            *writes -= 1;
            None
        }
        None => None,
    }
}

impl State {
    pub(super) fn serve(&mut self, request: &str, body: Value) -> (u16, Value) {
        let (method, path) = request.split_once(' ').unwrap();
        match (method, path) {
            ("PATCH", EXPOSE) => self.patch_expose(body),
            ("PATCH", path) if path.strip_suffix("/status") == Some(EXPOSE) => {
                self.patch_expose(body)
            }
            ("GET", EXPOSES) => {
                let items = Some(&self.expose).filter(|_| !self.is_expose_gone);
                let items: Vec<_> = items.into_iter().collect();
                (200, json!({ "metadata": {}, "items": items }))
            }
            ("POST", SECRETS) => match &self.secret {
                Some(_) => (409, status(409, "AlreadyExists", "there is one")),
                None => {
                    let mut secret = body;
                    secret["metadata"]["uid"] = json!("s-1");
                    secret["metadata"]["resourceVersion"] = json!(next_version());
                    self.secret = Some(secret.clone());
                    (201, secret)
                }
            },
            ("PATCH", SECRET) => patch(&mut self.secret, body),
            ("GET", SECRET) => found(self.secret.as_ref()),
            ("GET", DEPLOYMENT) => found(self.deployment.as_ref()),
            ("PATCH", DEPLOYMENT) if body["kind"].is_null() => patch(&mut self.deployment, body),
            ("PATCH", DEPLOYMENT) => self.apply(body),
            ("DELETE", DEPLOYMENT) => self.delete(&body),
            _ => unreachable!("{request}"),
        }
    }

    fn patch_expose(&mut self, body: Value) -> (u16, Value) {
        let mut expose = Some(std::mem::take(&mut self.expose));
        let answer = patch(&mut expose, body);
        self.expose = expose.unwrap();
        answer
    }

    /// Server-side apply, as far as it matters here.
    fn apply(&mut self, mut body: Value) -> (u16, Value) {
        let before = self.deployment.clone().unwrap_or_default();
        let uid = before["metadata"]["uid"]
            .as_str()
            .unwrap_or("d-1")
            .to_owned();
        let asked = body["metadata"]["uid"].as_str();
        if asked.is_some_and(|asked| self.deployment.is_none() || asked != uid) {
            return (409, status(409, "Conflict", "the UID"));
        }
        let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
        let changed = i64::from(before["spec"] != body["spec"]);
        body["metadata"]["uid"] = json!(uid);
        body["metadata"]["generation"] = json!(generation + changed);
        body["metadata"]["resourceVersion"] = json!(next_version());
        body["status"] = before["status"].clone();
        self.deployment = Some(body.clone());
        (200, body)
    }

    fn delete(&mut self, options: &Value) -> (u16, Value) {
        let Some(deployment) = &mut self.deployment else {
            return found(None);
        };
        if deployment["metadata"]["uid"] != options["preconditions"]["uid"] {
            return (409, status(409, "Conflict", "the UID"));
        }
        if deployment["metadata"]["finalizers"].is_array() {
            deployment["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            return (200, deployment.clone());
        }
        self.deployment = None;
        (200, json!({ "kind": "Status", "status": "Success" }))
    }
}

fn found(object: Option<&Value>) -> (u16, Value) {
    match object {
        Some(object) => (200, object.clone()),
        None => (404, status(404, "NotFound", "there is none")),
    }
}

/// Merges a patch, if it was made from this very version.
fn patch(object: &mut Option<Value>, mut body: Value) -> (u16, Value) {
    let Some(object) = object else {
        return found(None);
    };
    let seen = &body["metadata"]["resourceVersion"];
    if !seen.is_null() && *seen != object["metadata"]["resourceVersion"] {
        return (409, status(409, "Conflict", "it was changed"));
    }
    body["metadata"]["resourceVersion"] = json!(next_version());
    json_patch::merge(object, &body);
    (200, object.clone())
}

fn next_version() -> String {
    static VERSION: AtomicUsize = AtomicUsize::new(100);
    VERSION.fetch_add(1, Ordering::Relaxed).to_string()
}
