//! A counterfeit API server in memory, whose requests can fail or be lost.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

pub(crate) const SECRET: &str = "/api/v1/namespaces/system/secrets/tls";
const SECRETS: &str = "/api/v1/namespaces/system/secrets";
pub(crate) const CONFIGURATIONS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/podloom",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/podloom",
];

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// The API server refuses it.
    Refused,
    /// The API server finds the object invalid.
    Invalid,
    /// It never arrives.
    Lost,
    /// It is done, but the answer never arrives.
    Unanswered,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    requests: Vec<String>,
}

#[derive(Clone, Default)]
pub(crate) struct Api(Arc<Mutex<State>>);

impl Api {
    /// A client. `fate` decides about each request by its number, from 0, and its first line.
    pub(crate) fn client(
        &self,
        fate: impl Fn(usize, &str) -> Fate + Send + Sync + 'static,
    ) -> Client {
        let (api, fate) = (self.clone(), Arc::new(fate));
        let number = Arc::new(Mutex::new(0));
        let service = service_fn(move |request: Request<Body>| {
            let (api, fate, number) = (api.clone(), Arc::clone(&fate), Arc::clone(&number));
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let line = format!("{} {}", head.method, head.uri.path());
                let this = {
                    let mut number = number.lock().unwrap();
                    *number += 1;
                    *number - 1
                };
                let fate = fate(this, &line);
                if fate == Fate::Lost {
                    pending::<()>().await;
                }
                api.0.lock().unwrap().requests.push(line);
                if fate == Fate::Invalid {
                    return Ok(answer(422, &status(422, "Invalid", "it is too long")));
                }
                if fate == Fate::Refused {
                    return Ok(answer(403, &status(403, "Forbidden", "you may not")));
                }
                let answered = api.handle(&head.method, head.uri.path(), &body);
                if fate == Fate::Unanswered {
                    pending::<()>().await;
                }
                Ok::<_, tower::BoxError>(answered)
            }
        });
        Client::new(service, "default")
    }

    /// A client whose requests are all answered.
    pub(crate) fn plain_client(&self) -> Client {
        self.client(|_, _| Fate::Answered)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    pub(crate) fn delete(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    /// Stores an object with a new version.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut state = self.0.lock().unwrap();
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        state.objects.insert(path.to_owned(), object);
    }

    /// Creates both configurations, with some webhooks without a caBundle.
    pub(crate) fn configure(&self) {
        for path in CONFIGURATIONS {
            let service = json!({ "namespace": "system", "name": "webhook" });
            let webhook =
                |name: &str| json!({ "name": name, "clientConfig": { "service": service } });
            let webhooks = [webhook("a.podloom.dev"), webhook("b.podloom.dev")];
            self.put(
                path,
                json!({ "metadata": { "name": "podloom" }, "webhooks": webhooks }),
            );
        }
    }

    /// The caBundles of all webhooks, in base64.
    pub(crate) fn bundles(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let found = CONFIGURATIONS
            .iter()
            .filter_map(|path| state.objects.get(*path));
        let webhooks = found.flat_map(|found| found["webhooks"].as_array().unwrap());
        webhooks
            .map(|webhook| {
                webhook["clientConfig"]["caBundle"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
    }

    fn handle(&self, method: &Method, path: &str, body: &[u8]) -> Response<Body> {
        let found = self.get(path);
        let Some(mut object) = found else {
            if *method != Method::POST || path != SECRETS {
                return answer(404, &status(404, "NotFound", "there is none"));
            }
            if self.get(SECRET).is_some() {
                return answer(409, &status(409, "AlreadyExists", "there is one"));
            }
            self.put(SECRET, serde_json::from_slice(body).unwrap());
            return answer(201, &self.get(SECRET).unwrap());
        };
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        match method.as_str() {
            "PUT" => {
                let next: Value = serde_json::from_slice(body).unwrap();
                if version(&next) != version(&object) {
                    return answer(409, &status(409, "Conflict", "it was modified"));
                }
                self.put(path, next);
            }
            "PATCH" => {
                let patch: json_patch::Patch = serde_json::from_slice(body).unwrap();
                if json_patch::patch(&mut object, &patch).is_err() {
                    return answer(422, &status(422, "Invalid", "a test failed"));
                }
                self.put(path, object);
            }
            _ => {}
        }
        answer(200, &self.get(path).unwrap())
    }
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    let response = Response::builder().status(code);
    response
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap()
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}
