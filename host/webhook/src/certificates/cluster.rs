//! The Secret and the two configurations in the API server: which of their webhooks call us, and which of our authorities these trust.
//!
//! Requests are sent as text and read here, since kube's own methods log an answer that they cannot read, and this one has private keys.

use std::time::{Duration, SystemTime};

use http::Method;
use http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use k8s_openapi::api::core::v1::Secret;
use kube::Error;
use kube::api::ObjectMeta;
use podloom_controllers::duties::WEBHOOK_NAME;
use podloom_engine::plain::plain;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::x509::{Certificate, OurSecret, our_authorities};
use super::{OwnSetup, Problem};

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
        let found = self.read(&name, &self.secret_path(&self.secret)).await?;
        OurSecret::read(found).map_err(|why| format!("{name} is not podloom's: {why}").into())
    }

    pub(super) async fn configurations(&self) -> Result<Configurations, Problem> {
        let mut all = Configurations::new();
        for place in 0..KINDS.len() {
            let name = self.configuration_name(place);
            let found = self.read(&name, &self.configuration_path(place)).await?;
            if found.is_none() {
                let what = format!("read {name}");
                tracing::debug!(what, "the webhook configuration does not exist");
            }
            all.push(found.map(|found: Configuration| found.seen_by(self)));
        }
        Ok(all)
    }

    /// Creates the Secret, or replaces the one with the resourceVersion in it.
    pub(super) async fn write_secret(&self, secret: &Secret) -> Result<(), Problem> {
        let (verb, method, name) = match secret.metadata.resource_version {
            None => ("create", Method::POST, ""),
            Some(_) => ("update", Method::PUT, &*self.secret),
        };
        let what = format!("{verb} {}", self.secret_name());
        let secret = encoded(secret);
        self.write(&what, method, &self.secret_path(name), secret)
            .await
    }

    /// Changes the configuration at this place with a JSON Patch.
    pub(super) async fn publish(&self, place: usize, patch: &Value) -> Result<(), Problem> {
        let what = format!("update {}", self.configuration_name(place));
        let path = self.configuration_path(place);
        self.write(&what, Method::PATCH, &path, encoded(patch))
            .await
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

    async fn read<T: DeserializeOwned>(
        &self,
        name: &str,
        path: &str,
    ) -> Result<Option<T>, Problem> {
        let what = format!("read {name}");
        let text = self.send(&what, Method::GET, path, Vec::new()).await?;
        let read = text.map(|text| serde_json::from_str(&text)).transpose();
        // The message of serde might quote a key.
        read.map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let why = format!("the answer is not as expected at line {line}, column {column}");
            format!("could not {what}: {why}").into()
        })
    }

    /// An object that is gone was changed too.
    async fn write(
        &self,
        what: &str,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(), Problem> {
        let path = format!("{path}?{FIELD_MANAGER}");
        let answer = self.send(what, method, &path, body).await?;
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
        path: &str,
        body: Vec<u8>,
    ) -> Result<Option<String>, Problem> {
        let failed = |why: String| Problem::from(format!("could not {what}: {why}"));
        let (is_create, is_patch) = (method == Method::POST, method == Method::PATCH);
        let content = if is_patch {
            "application/json-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header(CONTENT_TYPE, content).body(body);
        let request = request.map_err(|error| failed(error.to_string()))?;
        let answer = timeout(PATIENCE, self.client.request_text(request)).await;
        let status = match answer {
            Err(_) => return Err(failed(format!("no answer within {PATIENCE:?}"))),
            Ok(Ok(text)) => return Ok(Some(text)),
            Ok(Err(Error::Api(status))) => status,
            Ok(Err(Error::SerdeError(_))) => {
                return Err(failed("the answer is not JSON".to_owned()));
            }
            Ok(Err(error)) => return Err(failed(plain(&error))),
        };
        let code = status.code;
        // A namespace that is missing is no answer to a create.
        if code == 404 && !is_create {
            return Ok(None);
        }
        let remedy = if code == 403 {
            self.remedy()
        } else {
            String::new()
        };
        Err(Problem {
            text: failed(message(code, &status.reason, &status.message)).text + &remedy,
            // The answer is 422 if a test of a JSON Patch failed; but also if the result is invalid.
            is_race: code == 409 || (code == 422 && is_patch),
        })
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

    /// Whether a webhook is ours; those that call something else are somebody else's.
    fn is_called_by(&self, config: &WebhookClientConfig) -> bool {
        if let Some(service) = &config.service {
            return service.namespace == self.namespace && service.name == self.service;
        }
        let url = config.url.as_deref().and_then(|url| url.parse().ok());
        let host = url.as_ref().and_then(http::Uri::host).map(|host| {
            // An IPv6 address is in brackets.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            ServerName::try_from(host)
        });
        host.is_some_and(|host| host.is_ok_and(|host| self.hosts.contains(&host.to_owned())))
    }
}

fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("objects of Kubernetes have only text as keys")
}

/// The API server's words. An answer of somebody else, such as a proxy, might repeat the request, and with it a key.
fn message(code: u16, reason: &str, message: &str) -> String {
    if reason == UNKNOWN_ANSWER {
        return format!("status {code}, not from an API server");
    }
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    format!("{message} (status {code})")
}

/// What we read of a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration.
#[derive(Deserialize)]
pub(super) struct Configuration {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) webhooks: Vec<Webhook>,
}

/// Both, in their order; none for one that does not exist.
pub(super) type Configurations = Vec<Option<Configuration>>;

/// A webhook of a configuration.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) client_config: WebhookClientConfig,
    /// Our authorities in its caBundle; none if it calls somebody else. Such a webhook is left alone.
    #[serde(skip)]
    pub(super) trusted: Option<Vec<Certificate>>,
}

impl Webhook {
    /// The caBundle, decoded; empty if there is none.
    fn bundle(&self) -> &[u8] {
        let bundle = self.client_config.ca_bundle.as_ref();
        bundle.map_or(&[], |bundle| &bundle.0)
    }

    pub(super) fn is_ours(&self) -> bool {
        self.trusted.is_some()
    }

    fn trusts(&self, authority: &Certificate) -> bool {
        let mut trusted = self.trusted.iter().flatten();
        trusted.any(|trusted| trusted == authority)
    }
}

impl Configuration {
    fn seen_by(mut self, setup: &OwnSetup) -> Self {
        for webhook in &mut self.webhooks {
            let is_ours = setup.is_called_by(&webhook.client_config);
            webhook.trusted = is_ours.then(|| our_authorities(webhook.bundle()));
        }
        self
    }

    /// Our webhooks that have another caBundle, with their places.
    pub(super) fn outdated(&self, bundle: &str) -> Vec<(usize, &Webhook)> {
        let webhooks = self.webhooks.iter().enumerate();
        let is_outdated = |webhook: &Webhook| webhook.bundle() != bundle.as_bytes();
        webhooks
            .filter(|(_, webhook)| webhook.is_ours() && is_outdated(webhook))
            .collect()
    }

    /// The JSON Patch that writes this caBundle into some webhooks. It fails if the configuration was changed meanwhile.
    pub(super) fn patch(&self, outdated: &[(usize, &Webhook)], bundle: &str) -> Value {
        let version = self.metadata.resource_version.as_deref();
        let version = version.unwrap_or_default();
        let mut patch =
            vec![json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version })];
        let bundle = ByteString(bundle.as_bytes().to_vec());
        for (place, Webhook { name, .. }) in outdated {
            let webhook = format!("/webhooks/{place}");
            patch.push(json!({ "op": "test", "path": format!("{webhook}/name"), "value": name }));
            patch.push(json!({ "op": "add", "path": format!("{webhook}/clientConfig/caBundle"), "value": bundle }));
        }
        Value::Array(patch)
    }
}

/// Ours of all configurations.
fn webhooks(all: &Configurations) -> impl Iterator<Item = &Webhook> {
    let all = all.iter().flatten().flat_map(|found| &found.webhooks);
    all.filter(|webhook| webhook.is_ours())
}

/// Whether every webhook of ours trusts an authority. A configuration that does not exist has no webhooks.
pub(super) fn is_trusted(authority: &Certificate, all: &Configurations) -> bool {
    webhooks(all).all(|webhook| webhook.trusts(authority))
}

/// Whether webhooks of ours exist, and none of them trusts an authority.
pub(super) fn is_unknown(authority: &Certificate, all: &Configurations) -> bool {
    webhooks(all).next().is_some() && !webhooks(all).any(|webhook| webhook.trusts(authority))
}

/// Whether every webhook of ours trusts an authority that is not valid now.
pub(super) fn trust_invalid(all: &Configurations, now: SystemTime) -> bool {
    let mut published = published(all).into_iter();
    published.any(|found| !found.is_valid_at(now) && is_trusted(found, all))
}

/// Our authorities that our webhooks trust, those that expire last first.
pub(super) fn published(all: &Configurations) -> Vec<&Certificate> {
    let trusted = webhooks(all).flat_map(|webhook| &webhook.trusted);
    let mut found: Vec<_> = trusted.flatten().collect();
    found.sort_by_key(|certificate| std::cmp::Reverse(certificate.not_after));
    found
}

/// Looks whether all webhooks trust an authority; returns for how long that has been found at each look. `since` is for the next look.
pub(super) fn trusted_for(
    since: &mut Option<(Certificate, Instant)>,
    authority: &Certificate,
    all: &Configurations,
) -> Option<Duration> {
    let is_trusted = is_trusted(authority, all);
    since.take_if(|(known, _)| known != authority || !is_trusted);
    let begin = || (authority.clone(), Instant::now());
    is_trusted.then(|| since.get_or_insert_with(begin).1.elapsed())
}

#[cfg(test)]
mod tests;
