//! Requests to the API server: the Secret and the two configurations.
//!
//! They are sent as text and read here, since kube's own methods log an answer that they cannot read, and this one has private keys.

use std::time::Duration;

use http::Method;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, Error};
use podloom_controllers::duties::WEBHOOK_NAME;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::plan::Publication;
use super::world::{Configuration, Endpoint, SecretState, World};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many characters of the API server's message an error repeats.
const MESSAGE_MAX: usize = 300;
/// The reason in an error that kube makes of an answer that is not the API server's.
const UNKNOWN_ANSWER: &str = "Failed to parse error data";

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const FIELD_MANAGER: &str = "fieldManager=podloom-webhook";

/// The kinds of configurations, with their resources.
const CONFIGURATIONS: [(&str, &str); 2] = [
    (
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    (
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
];

/// The objects in the cluster.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) namespace: String,
    /// The name of the Secret.
    pub(super) secret: String,
    /// The name of both configurations.
    pub(super) configurations: String,
    /// Which of their webhooks are ours.
    pub(super) endpoint: Endpoint,
}

/// Why a request failed. It never contains an object.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("could not {what}: {why}")]
    Failed { what: String, why: String },
    /// The object is another one than the one that was looked at.
    #[error("could not {what}: {why}")]
    Changed { what: String, why: String },
}

/// What is asked of the API server.
struct Call {
    /// For errors: `read Secret a/b`.
    what: String,
    method: Method,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Cluster {
    /// The Secret, for people.
    pub(super) fn secret_name(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.secret)
    }

    /// What webhooks of ours call, for people.
    pub(super) fn service_name(&self) -> String {
        let (namespace, name) = &self.endpoint.service;
        format!("Service {namespace}/{name}, or a URL with a host of the certificate")
    }

    pub(super) async fn world(&self) -> Result<World, RequestError> {
        Ok(World {
            secret: self.secret().await?,
            configurations: self.configurations().await?,
        })
    }

    pub(super) async fn secret(&self) -> Result<SecretState, RequestError> {
        let call = Call::read(&self.secret_name(), self.secret_path());
        let what = call.what.clone();
        let Some(text) = self.answer(call).await? else {
            return Ok(SecretState::Absent);
        };
        let secret: Secret =
            serde_json::from_str(&text).map_err(|error| unreadable(what, &error))?;
        Ok(SecretState::of(Some(secret)))
    }

    /// Both configurations, in their order.
    pub(super) async fn configurations(&self) -> Result<Vec<Configuration>, RequestError> {
        let mut found = Vec::new();
        for place in 0..CONFIGURATIONS.len() {
            let (name, path) = self.configuration(place);
            let call = Call::read(&name, path);
            let what = call.what.clone();
            found.push(match self.answer(call).await? {
                None => {
                    tracing::debug!(what, "the webhook configuration does not exist");
                    Configuration::Absent
                }
                Some(text) => {
                    let parsed = Configuration::parse(&text, &self.endpoint);
                    parsed.map_err(|error| unreadable(what, &error))?
                }
            });
        }
        Ok(found)
    }

    pub(super) async fn create(&self, secret: &Secret) -> Result<(), RequestError> {
        let path = format!("/api/v1/namespaces/{}/secrets", self.namespace);
        self.write("create", Method::POST, path, secret).await
    }

    /// Replaces the Secret, if its resourceVersion is still the one in `secret`.
    pub(super) async fn replace(&self, secret: &Secret) -> Result<(), RequestError> {
        let path = self.secret_path();
        self.write("update", Method::PUT, path, secret).await
    }

    async fn write(
        &self,
        verb: &str,
        method: Method,
        path: String,
        secret: &Secret,
    ) -> Result<(), RequestError> {
        let call = Call {
            what: format!("{verb} {}", self.secret_name()),
            method,
            path: format!("{path}?{FIELD_MANAGER}"),
            content_type: JSON,
            body: encoded(secret),
        };
        self.changed(call).await
    }

    /// Writes the caBundle, if the configuration is still the one that was looked at.
    pub(super) async fn publish(&self, publication: &Publication) -> Result<(), RequestError> {
        let (name, path) = self.configuration(publication.configuration);
        let call = Call {
            what: format!("update {name}"),
            method: Method::PATCH,
            path: format!("{path}?{FIELD_MANAGER}"),
            content_type: JSON_PATCH,
            body: encoded(&patch(publication)),
        };
        self.changed(call).await
    }

    /// What to do if the API server refuses a request.
    fn remedy(&self) -> String {
        let name = match self.configurations.as_str() {
            WEBHOOK_NAME => String::new(),
            name => format!(" --webhook-name {name}"),
        };
        format!(
            "; `podloom rbac --controllers webhook{name}` prints the rights that the operator needs; without them, use --tls-dir"
        )
    }

    fn secret_path(&self) -> String {
        let (namespace, name) = (&self.namespace, &self.secret);
        format!("/api/v1/namespaces/{namespace}/secrets/{name}")
    }

    /// The name of a configuration for people, and its path.
    pub(super) fn configuration(&self, place: usize) -> (String, String) {
        let (kind, resource) = CONFIGURATIONS.get(place).copied().unwrap_or_default();
        let name = &self.configurations;
        let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}/{name}");
        (format!("{kind} {name}"), path)
    }

    /// A write; an object that is gone was changed too.
    async fn changed(&self, call: Call) -> Result<(), RequestError> {
        let what = call.what.clone();
        match self.answer(call).await? {
            Some(_) => Ok(()),
            None => Err(RequestError::Changed {
                what,
                why: "it was deleted".to_owned(),
            }),
        }
    }

    /// The API server's answer; none if there is no such object.
    async fn answer(&self, call: Call) -> Result<Option<String>, RequestError> {
        let what = call.what;
        let failed = |why: String| RequestError::Failed {
            what: what.clone(),
            why,
        };
        let request = http::Request::builder()
            .method(&call.method)
            .uri(call.path)
            .header(CONTENT_TYPE, call.content_type)
            .body(call.body)
            .map_err(|error| failed(error.to_string()))?;
        let answer = timeout(PATIENCE, self.client.request_text(request)).await;
        let Ok(answer) = answer else {
            return Err(failed(format!("no answer within {PATIENCE:?}")));
        };
        match answer {
            Ok(text) => Ok(Some(text)),
            Err(Error::Api(status)) => match status.code {
                // A namespace that is missing is no answer to a create.
                404 if call.method != Method::POST => Ok(None),
                code => {
                    let mut why = message(code, &status.reason, &status.message);
                    if code == 403 {
                        why.push_str(&self.remedy());
                    }
                    // The answer is 422 if a test of a JSON Patch failed; but also if the result is invalid.
                    if code == 409 || (code == 422 && call.method == Method::PATCH) {
                        return Err(RequestError::Changed { what, why });
                    }
                    Err(failed(why))
                }
            },
            Err(Error::SerdeError(_)) => Err(failed("the answer is not JSON".to_owned())),
            Err(error) => Err(failed(causes(&error))),
        }
    }
}

impl Call {
    fn read(name: &str, path: String) -> Self {
        Self {
            what: format!("read {name}"),
            method: Method::GET,
            path,
            content_type: JSON,
            body: Vec::new(),
        }
    }
}

/// The JSON Patch of a publication. It fails if the configuration was changed meanwhile.
fn patch(publication: &Publication) -> Value {
    let version = &publication.resource_version;
    let mut patch =
        vec![json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version })];
    for (place, name) in &publication.webhooks {
        let webhook = format!("/webhooks/{place}");
        let bundle = k8s_openapi::ByteString(publication.bundle.clone().into_bytes());
        patch.push(json!({ "op": "test", "path": format!("{webhook}/name"), "value": name }));
        patch.push(json!({ "op": "add", "path": format!("{webhook}/clientConfig/caBundle"), "value": bundle }));
    }
    Value::Array(patch)
}

fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("objects of Kubernetes have only text as keys")
}

/// An answer that cannot be read; serde's message might quote a key.
fn unreadable(what: String, error: &serde_json::Error) -> RequestError {
    RequestError::Failed {
        what,
        why: format!(
            "the answer is not as expected at line {}, column {}",
            error.line(),
            error.column()
        ),
    }
}

/// The API server's words. An answer of somebody else, such as a proxy, might repeat the request, and with it a key.
fn message(code: u16, reason: &str, message: &str) -> String {
    if reason == UNKNOWN_ANSWER {
        return format!("status {code}, not from an API server");
    }
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    format!("{message} (status {code})")
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
