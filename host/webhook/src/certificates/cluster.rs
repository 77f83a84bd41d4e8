//! Requests to the API server: the Secret and the two configurations.
//!
//! They are sent as text and read here, since kube's own methods log an answer that they cannot read, and this one has private keys.

use std::time::Duration;

use http::Method;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::core::v1::Secret;
use kube::Error;
use podloom_controllers::duties::WEBHOOK_NAME;
use podloom_controllers::plain;
use tokio::time::timeout;

use super::OwnSetup;
use super::configuration::{Configuration, Configurations, Publication};
use super::looks::Problem;
use super::secret::OurSecret;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many characters of the API server's message an error repeats.
const MESSAGE_MAX: usize = 300;
/// The reason in an error that kube makes of an answer that is not the API server's.
const UNKNOWN_ANSWER: &str = "Failed to parse error data";
const FIELD_MANAGER: &str = "fieldManager=podloom-webhook";
/// The kinds of configurations.
const KINDS: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

impl OwnSetup {
    /// The Secret, for people.
    pub(super) fn secret_name(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.secret)
    }

    /// A configuration, for people.
    pub(super) fn configuration_name(&self, place: usize) -> String {
        let kind = KINDS.get(place).copied().unwrap_or_default();
        format!("{kind} {}", self.configurations)
    }

    pub(super) async fn read_secret(&self) -> Result<OurSecret, Problem> {
        let name = self.secret_name();
        let path = self.secret_path(&self.secret);
        let found = self.read(&name, path).await?;
        let found = found.map(|text| serde_json::from_str(&text)).transpose();
        let found = found.map_err(|error| unreadable(&name, &error))?;
        OurSecret::read(found).map_err(|why| format!("{name} is not podloom's: {why}").into())
    }

    pub(super) async fn configurations(&self) -> Result<Configurations, Problem> {
        let mut found = Vec::new();
        for place in 0..KINDS.len() {
            let name = self.configuration_name(place);
            let text = self.read(&name, self.configuration_path(place)).await?;
            if text.is_none() {
                tracing::debug!(
                    what = format!("read {name}"),
                    "the webhook configuration does not exist"
                );
            }
            let parsed = text.map(|text| Configuration::parse(&text, self));
            let parsed = parsed.transpose();
            found.push(parsed.map_err(|error| unreadable(&name, &error))?);
        }
        Ok(found)
    }

    /// Creates the Secret, or replaces the one with the resourceVersion in it.
    pub(super) async fn write_secret(&self, secret: &Secret) -> Result<(), Problem> {
        let (verb, method, name) = match secret.metadata.resource_version {
            None => ("create", Method::POST, ""),
            Some(_) => ("update", Method::PUT, &*self.secret),
        };
        let what = format!("{verb} {}", self.secret_name());
        let path = self.secret_path(name);
        self.write(what, method, path, encoded(secret)).await
    }

    /// Writes the caBundle, if the configuration is still the one that was looked at.
    pub(super) async fn publish(&self, publication: &Publication) -> Result<(), Problem> {
        let place = publication.configuration;
        let what = format!("update {}", self.configuration_name(place));
        let path = self.configuration_path(place);
        let patch = encoded(&publication.patch());
        self.write(what, Method::PATCH, path, patch).await
    }

    fn secret_path(&self, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{}/secrets/{name}", self.namespace);
        path.trim_end_matches('/').to_owned()
    }

    fn configuration_path(&self, place: usize) -> String {
        let kind = KINDS.get(place).copied().unwrap_or_default();
        let (resource, name) = (kind.to_lowercase(), &self.configurations);
        format!("/apis/admissionregistration.k8s.io/v1/{resource}s/{name}")
    }

    async fn read(&self, name: &str, path: String) -> Result<Option<String>, Problem> {
        let what = format!("read {name}");
        self.send(&what, Method::GET, path, Vec::new()).await
    }

    /// An object that is gone was changed too.
    async fn write(
        &self,
        what: String,
        method: Method,
        path: String,
        body: Vec<u8>,
    ) -> Result<(), Problem> {
        let path = format!("{path}?{FIELD_MANAGER}");
        let answer = self.send(&what, method, path, body).await?;
        answer.map(drop).ok_or_else(|| Problem {
            text: format!("could not {what}: it was deleted"),
            is_race: true,
        })
    }

    /// The API server's answer; none if there is no such object. `what` is for errors: `read Secret a/b`.
    async fn send(
        &self,
        what: &str,
        method: Method,
        path: String,
        body: Vec<u8>,
    ) -> Result<Option<String>, Problem> {
        let failed = |why: String| Problem::from(format!("could not {what}: {why}"));
        let (is_create, is_patch) = (method == Method::POST, method == Method::PATCH);
        let content_type = if is_patch {
            "application/json-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header(CONTENT_TYPE, content_type).body(body);
        let request = request.map_err(|error| failed(error.to_string()))?;
        match timeout(PATIENCE, self.client.request_text(request)).await {
            Err(_) => Err(failed(format!("no answer within {PATIENCE:?}"))),
            Ok(Ok(text)) => Ok(Some(text)),
            // A namespace that is missing is no answer to a create.
            Ok(Err(Error::Api(status))) if status.code == 404 && !is_create => Ok(None),
            Ok(Err(Error::Api(status))) => {
                let code = status.code;
                let mut problem = failed(message(code, &status.reason, &status.message));
                if code == 403 {
                    problem.text.push_str(&self.remedy());
                }
                // The answer is 422 if a test of a JSON Patch failed; but also if the result is invalid.
                problem.is_race = code == 409 || (code == 422 && is_patch);
                Err(problem)
            }
            Ok(Err(Error::SerdeError(_))) => Err(failed("the answer is not JSON".to_owned())),
            Ok(Err(error)) => Err(failed(plain(&error))),
        }
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
}

fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("objects of Kubernetes have only text as keys")
}

/// An answer that cannot be read; serde's message might quote a key.
fn unreadable(name: &str, error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let why = format!("the answer is not as expected at line {line}, column {column}");
    format!("could not read {name}: {why}").into()
}

/// The API server's words. An answer of somebody else, such as a proxy, might repeat the request, and with it a key.
fn message(code: u16, reason: &str, message: &str) -> String {
    if reason == UNKNOWN_ANSWER {
        return format!("status {code}, not from an API server");
    }
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    format!("{message} (status {code})")
}

#[cfg(test)]
mod tests;
