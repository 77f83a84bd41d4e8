//! API servers for tests of controllers: one that always gives the same answer, one that follows a script, and others that fail.
//!
//! They are services below [`kube::Client`]: nothing listens on a socket.

#![expect(
    clippy::unwrap_used,
    reason = "this is all test code: what goes wrong fails the test that asked"
)]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use futures::future;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};
use tower::{BoxError, service_fn};

/// The requests that a client sent.
#[derive(Clone, Default)]
pub struct Requests(Arc<Mutex<Vec<String>>>);

impl Requests {
    /// Returns each request as `METHOD /path`, in their order.
    pub fn made(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// How often each method and path was asked for.
    pub fn counted(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in self.made() {
            *counts.entry(request).or_default() += 1;
        }
        counts
    }

    fn note(&self, method: &Method, path: &str) {
        self.0.lock().unwrap().push(format!("{method} {path}"));
    }
}

/// A client of an API server that always gives this answer, and its requests.
pub fn client(code: u16, answer: Value) -> (Client, Requests) {
    let requests = Requests::default();
    let noted = requests.clone();
    let service = service_fn(move |request: Request<Body>| {
        noted.note(request.method(), request.uri().path());
        let body = serde_json::to_vec(&answer).map(Body::from);
        async move {
            let response = Response::builder().status(code).body(body?)?;
            Ok::<_, BoxError>(response)
        }
    });
    (Client::new(service, "default"), requests)
}

/// A client of an API server whose answer depends on the request, `METHOD /path`, and its body; and its requests.
pub fn scripted(
    answer: impl Fn(&str, Value) -> (u16, Value) + Send + Sync + 'static,
) -> (Client, Requests) {
    let requests = Requests::default();
    let noted = requests.clone();
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        noted.note(request.method(), request.uri().path());
        let answer = Arc::clone(&answer);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let (code, answer) = answer(&format!("{} {}", parts.method, parts.uri.path()), body);
            if code == SILENCE {
                future::pending::<()>().await;
            }
            let text = match answer {
                Value::String(text) => text.into_bytes(),
                json => serde_json::to_vec(&json)?,
            };
            let response = Response::builder().status(code).body(Body::from(text))?;
            Ok::<_, BoxError>(response)
        }
    });
    (Client::new(service, "default"), requests)
}

/// How an API server fails.
#[derive(Clone, Copy, Debug)]
pub enum Broken {
    /// It refuses connections.
    Down,
    /// It answers every request with this code.
    Answers(u16),
    /// Its lists are empty, and it answers every watch with this code.
    Watches(u16),
    /// Its lists are empty, and each watch ends at once.
    Ends,
}

impl Broken {
    /// Every way to fail.
    pub const ALL: [Self; 10] = [
        Self::Ends,
        Self::Down,
        Self::Answers(403),
        Self::Answers(404),
        Self::Answers(429),
        Self::Answers(500),
        Self::Watches(403),
        Self::Watches(404),
        Self::Watches(429),
        Self::Watches(500),
    ];

    fn answer(self, is_watch: bool) -> Result<(u16, Value), BoxError> {
        let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
        match self {
            Self::Down => Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
            Self::Watches(_) | Self::Ends if !is_watch => Ok((200, list)),
            Self::Ends => Ok((200, Value::Null)),
            Self::Answers(code) | Self::Watches(code) => Ok((code, failure(code))),
        }
    }
}

/// A client of an API server that fails, and its requests.
pub fn broken(how: Broken) -> (Client, Requests) {
    let requests = Requests::default();
    let noted = requests.clone();
    let service = service_fn(move |request: Request<Body>| {
        noted.note(request.method(), request.uri().path());
        let query = request.uri().query().unwrap_or_default();
        let answer = how.answer(query.contains("watch=true"));
        async move {
            let (code, answer) = answer?;
            let text = match answer {
                Value::Null => Vec::new(),
                answer => serde_json::to_vec(&answer)?,
            };
            let body = Body::from(text);
            Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
        }
    });
    (Client::new(service, "default"), requests)
}

/// The status of an answer that never comes.
pub const SILENCE: u16 = 0;

/// An error response.
pub fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message })
}

/// An error response with the reason that an API server gives.
pub fn failure(code: u16) -> Value {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    status(code, reason, "it fails")
}

/// Returns what is different in `after`, as a merge-patch (RFC 7396) of `before`: what a snapshot shows of an object, so that it says
/// what happened and nothing else. Lists are shown whole. Nothing is `null`.
pub fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return after.clone();
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let changed = new
        .iter()
        .filter(|(key, value)| old.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| {
        let before = old.get(key).unwrap_or(&Value::Null);
        (key.clone(), difference(before, value))
    });
    Value::Object(gone.chain(changed).collect())
}

/// Returns an object as a difference shows it best: each condition is a line under its type, and other lists of objects are maps by
/// place, since of a list nothing or all is different.
pub fn in_lines(object: Value) -> Value {
    match object {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| match value {
                Value::Array(conditions) if key == "conditions" => (key, by_type(conditions)),
                value => (key, in_lines(value)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) if items.first().is_some_and(Value::is_object) => {
            let items = items.into_iter().map(in_lines).enumerate();
            let items = items.map(|(place, item)| (format!("{place:02}"), item));
            Value::Object(items.collect())
        }
        value => value,
    }
}

/// Conditions by type, as lines.
fn by_type(conditions: Vec<Value>) -> Value {
    let listed = conditions.len();
    let line = |condition: Value| {
        let text = |key: &str| condition[key].as_str().unwrap_or("-");
        let generation = &condition["observedGeneration"];
        let line = format!(
            "{} {} since {} ({generation}): {}",
            text("status"),
            text("reason"),
            text("lastTransitionTime"),
            text("message")
        );
        (text("type").to_owned(), Value::from(line))
    };
    let lines: Map<_, _> = conditions.into_iter().map(line).collect();
    assert_eq!(lines.len(), listed, "a condition is there twice");
    Value::Object(lines)
}
