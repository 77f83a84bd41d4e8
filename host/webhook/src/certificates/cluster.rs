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
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::x509::{Certificate, OurSecret, certificates_pem, our_authorities};
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

/// A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration.
pub(super) struct Configuration {
    pub(super) resource_version: String,
    /// Those that call us. The configuration may have others, which are left alone.
    pub(super) webhooks: Vec<Webhook>,
}

/// Both, in their order; none for one that does not exist.
pub(super) type Configurations = Vec<Option<Configuration>>;

/// A webhook of a configuration.
pub(super) struct Webhook {
    /// Its place in the configuration.
    place: usize,
    name: String,
    /// The caBundle, decoded; empty if there is none.
    bundle: Vec<u8>,
    /// Our authorities in it.
    trusted: Vec<Certificate>,
}

/// A caBundle for some webhooks of a configuration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Publication {
    /// The place of the configuration.
    pub(super) configuration: usize,
    pub(super) resource_version: String,
    /// Place and name of each webhook that has another caBundle.
    pub(super) webhooks: Vec<(usize, String)>,
    pub(super) bundle: String,
}

impl OwnSetup {
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
        host.is_some_and(|host| host.is_ok_and(|host| self.hosts.0.contains(&host.to_owned())))
    }
}

/// What we read of both kinds.
#[derive(Deserialize)]
struct Read {
    metadata: ObjectMeta,
    #[serde(default)]
    webhooks: Vec<ReadWebhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadWebhook {
    name: String,
    client_config: WebhookClientConfig,
}

impl Configuration {
    /// Reads one from JSON.
    pub(super) fn parse(json: &str, setup: &OwnSetup) -> serde_json::Result<Self> {
        let read: Read = serde_json::from_str(json)?;
        let webhooks = read.webhooks.into_iter().enumerate();
        let ours = webhooks.filter(|(_, webhook)| setup.is_called_by(&webhook.client_config));
        let webhooks = ours.map(|(place, webhook)| {
            let bundle = webhook.client_config.ca_bundle.unwrap_or_default();
            Webhook::new(place, webhook.name, bundle.0)
        });
        Ok(Self {
            resource_version: read.metadata.resource_version.unwrap_or_default(),
            webhooks: webhooks.collect(),
        })
    }
}

impl Webhook {
    pub(super) fn new(place: usize, name: String, bundle: Vec<u8>) -> Self {
        Self {
            trusted: our_authorities(&bundle),
            place,
            name,
            bundle,
        }
    }
}

fn webhooks(all: &Configurations) -> impl Iterator<Item = &Webhook> {
    all.iter().flatten().flat_map(|found| &found.webhooks)
}

/// Whether every webhook of ours trusts an authority. A configuration that does not exist has no webhooks.
pub(super) fn is_trusted(authority: &Certificate, all: &Configurations) -> bool {
    webhooks(all).all(|webhook| webhook.trusted.contains(authority))
}

/// Whether webhooks of ours exist, and none of them trusts an authority.
pub(super) fn is_unknown(authority: &Certificate, all: &Configurations) -> bool {
    webhooks(all).next().is_some()
        && !webhooks(all).any(|webhook| webhook.trusted.contains(authority))
}

/// Whether every webhook of ours trusts an authority that is not valid now.
pub(super) fn trust_invalid(all: &Configurations, now: SystemTime) -> bool {
    let mut found = webhooks(all).flat_map(|webhook| &webhook.trusted);
    found.any(|found| !found.is_valid_at(now) && is_trusted(found, all))
}

/// Our authorities that our webhooks trust, those that expire last first.
pub(super) fn published(all: &Configurations) -> Vec<&Certificate> {
    let mut found: Vec<_> = webhooks(all).flat_map(|webhook| &webhook.trusted).collect();
    found.sort_by_key(|certificate| std::cmp::Reverse(certificate.not_after));
    found
}

/// Remembers since when an authority has been found in the configurations at each look.
#[derive(Default)]
pub(super) struct TrustedSince(Option<(Certificate, Instant)>);

impl TrustedSince {
    /// Looks at the configurations; returns for how long they have been found like this.
    pub(super) fn look(
        &mut self,
        authority: &Certificate,
        all: &Configurations,
    ) -> Option<Duration> {
        let is_trusted = is_trusted(authority, all);
        self.0
            .take_if(|(known, _)| known != authority || !is_trusted);
        let begin = || (authority.clone(), Instant::now());
        is_trusted.then(|| self.0.get_or_insert_with(begin).1.elapsed())
    }
}

impl Publication {
    /// For the first configuration with a webhook that has another caBundle.
    pub(super) fn of(all: &Configurations, authorities: &[Certificate]) -> Option<Self> {
        let bundle = certificates_pem(authorities);
        all.iter().enumerate().find_map(|(place, found)| {
            let found = found.as_ref()?;
            let outdated = found.webhooks.iter();
            let outdated: Vec<(usize, String)> = outdated
                .filter(|webhook| webhook.bundle != bundle.as_bytes())
                .map(|webhook| (webhook.place, webhook.name.clone()))
                .collect();
            (!outdated.is_empty()).then(|| Self {
                configuration: place,
                resource_version: found.resource_version.clone(),
                webhooks: outdated,
                bundle: bundle.clone(),
            })
        })
    }

    /// Its JSON Patch. That fails if the configuration was changed meanwhile.
    pub(super) fn patch(&self) -> Value {
        let mut patch = vec![
            json!({ "op": "test", "path": "/metadata/resourceVersion", "value": self.resource_version }),
        ];
        let bundle = ByteString(self.bundle.clone().into_bytes());
        for (place, name) in &self.webhooks {
            let webhook = format!("/webhooks/{place}");
            patch.push(json!({ "op": "test", "path": format!("{webhook}/name"), "value": name }));
            patch.push(json!({ "op": "add", "path": format!("{webhook}/clientConfig/caBundle"), "value": bundle }));
        }
        Value::Array(patch)
    }
}

#[cfg(test)]
mod tests;
