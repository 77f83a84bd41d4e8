//! What the cluster has: the Secret, and what the two configurations publish.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use rustls::pki_types::ServerName;
use serde::Deserialize;

use super::certificate::{Certificate, parse_all};
use super::keyring::{CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY, Keyring};

/// Marks a Secret as ours.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "podloom");
/// The types of Secrets that can hold our keys.
const TYPES: [&str; 2] = ["Opaque", "kubernetes.io/tls"];

/// The largest caBundle that is read, in bytes. Ours have less than 4 KiB.
const BUNDLE_MAX: usize = 64 * 1024;
/// How many certificates of a caBundle are looked at.
const BUNDLE_READ: usize = 64;

/// Everything that a plan depends on, but the time.
pub(super) struct World {
    pub(super) secret: SecretState,
    pub(super) configurations: Vec<Configuration>,
}

/// The Secret. It has no `Debug`, since that would show its keys.
pub(super) enum SecretState {
    Absent,
    /// It is not ours, so it is neither used nor changed; the text says why.
    Foreign(String),
    Ours(Box<OurSecret>),
}

/// A Secret that we may write.
pub(super) struct OurSecret {
    /// As it was read, with everything that is not ours.
    pub(super) stored: Secret,
    pub(super) keyring: Keyring,
}

impl SecretState {
    /// Whether a Secret is ours.
    ///
    /// A Secret with our label is ours, whatever is in it. One without it may be another program's that got the same name, perhaps
    /// cert-manager's: its key would be lost if we wrote, and the two programs would overwrite each other for ever. An empty one is
    /// taken: somebody created it so that we need no right to create Secrets.
    pub(super) fn of(stored: Option<Secret>) -> Self {
        let Some(stored) = stored else {
            return Self::Absent;
        };
        let kind = stored.type_.as_deref().unwrap_or("Opaque");
        if !TYPES.contains(&kind) {
            return Self::Foreign(format!(
                "its type is {kind}; delete it, or choose another name"
            ));
        }
        let data = stored.data.clone().unwrap_or_default();
        let is_empty = data.values().all(|value| value.0.is_empty());
        if !is_labelled(&stored) && !is_empty {
            let (label, value) = MANAGED_BY;
            return Self::Foreign(format!(
                "it has data but not the label {label}: {value}, so another program may own it; delete it, or choose another name"
            ));
        }
        let keyring = Keyring::read(&data);
        Self::Ours(Box::new(OurSecret { stored, keyring }))
    }
}

impl OurSecret {
    /// Whether it looks as we write it, apart from what its certificates are.
    pub(super) fn is_tidy(&self) -> bool {
        is_labelled(&self.stored) && self.keyring.is_tidy
    }

    /// Whether it was never written.
    pub(super) fn is_empty(&self) -> bool {
        let data = self.stored.data.as_ref();
        let has = |name| {
            data.and_then(|data| data.get(name))
                .is_some_and(|value| !value.0.is_empty())
        };
        ![CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY]
            .into_iter()
            .any(has)
    }
}

fn is_labelled(secret: &Secret) -> bool {
    let (label, value) = MANAGED_BY;
    let labels = secret.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(label))
        .is_some_and(|found| found == value)
}

/// A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration.
#[derive(Clone, Debug)]
pub(super) enum Configuration {
    Absent,
    Present {
        resource_version: String,
        /// Those that call us. The configuration may have others, which are left alone.
        webhooks: Vec<Webhook>,
    },
}

/// What the API server calls to reach us; webhooks that call something else are somebody else's.
#[derive(Clone)]
pub(super) struct Endpoint {
    /// The namespace and the name of the Service.
    pub(super) service: (String, String),
    /// For webhooks with a URL.
    pub(super) hosts: Vec<ServerName<'static>>,
}

impl Endpoint {
    fn is_called_by(&self, config: &ClientConfig) -> bool {
        if let Some(service) = &config.service {
            let (namespace, name) = &self.service;
            return service.namespace == *namespace && service.name == *name;
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

/// A webhook of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Webhook {
    /// Its place in the configuration.
    pub(super) place: usize,
    pub(super) name: String,
    /// The caBundle, decoded; empty if there is none.
    pub(super) bundle: Vec<u8>,
}

impl Configuration {
    pub(super) fn webhooks(&self) -> &[Webhook] {
        match self {
            Self::Absent => &[],
            Self::Present { webhooks, .. } => webhooks,
        }
    }

    /// Whether it exists, but no webhook in it calls us.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, Self::Present { webhooks, .. } if webhooks.is_empty())
    }

    /// Reads one from JSON.
    pub(super) fn parse(json: &str, endpoint: &Endpoint) -> serde_json::Result<Self> {
        let read: ConfigurationObject = serde_json::from_str(json)?;
        let webhooks = read.webhooks.into_iter().enumerate();
        let ours = webhooks.filter(|(_, webhook)| endpoint.is_called_by(&webhook.client_config));
        let webhooks = ours.map(|(place, webhook)| {
            let text = webhook.client_config.ca_bundle.unwrap_or_default();
            Webhook {
                place,
                name: webhook.name,
                bundle: STANDARD.decode(text).unwrap_or_default(),
            }
        });
        Ok(Self::Present {
            resource_version: read.metadata.resource_version,
            webhooks: webhooks.collect(),
        })
    }
}

/// Whether every webhook of ours trusts an authority. A configuration that does not exist has no webhooks.
pub(super) fn is_trusted(authority: &Certificate, configurations: &[Configuration]) -> bool {
    let mut webhooks = configurations.iter().flat_map(Configuration::webhooks);
    webhooks.all(|webhook| certificates(&webhook.bundle).contains(authority))
}

/// Whether webhooks of ours exist, and none of them trusts an authority.
pub(super) fn is_unknown(authority: &Certificate, configurations: &[Configuration]) -> bool {
    let webhooks = || configurations.iter().flat_map(Configuration::webhooks);
    let is_known = |webhook: &Webhook| certificates(&webhook.bundle).contains(authority);
    webhooks().next().is_some() && !webhooks().any(is_known)
}

/// Our authorities that every webhook of ours trusts, whatever the time is.
pub(super) fn trusted(configurations: &[Configuration]) -> Vec<Certificate> {
    let mut webhooks = configurations.iter().flat_map(Configuration::webhooks);
    let first = webhooks.next().map(|webhook| certificates(&webhook.bundle));
    let mut found = first.unwrap_or_default();
    found.retain(|found| found.is_our_authority && is_trusted(found, configurations));
    found
}

/// Our authorities that our webhooks trust, each once, those that expire last first.
pub(super) fn published(configurations: &[Configuration], now: SystemTime) -> Vec<Certificate> {
    let mut found: Vec<Certificate> = Vec::new();
    for webhook in configurations.iter().flat_map(Configuration::webhooks) {
        for certificate in certificates(&webhook.bundle) {
            let is_useful = certificate.is_our_authority && certificate.is_valid_at(now);
            if is_useful && !found.contains(&certificate) {
                found.push(certificate);
            }
        }
    }
    found.sort_by_key(|certificate| std::cmp::Reverse(certificate.not_after));
    found
}

fn certificates(bundle: &[u8]) -> Vec<Certificate> {
    parse_all(bundle.get(..BUNDLE_MAX).unwrap_or(bundle), BUNDLE_READ)
}

/// What we read of both kinds.
#[derive(Deserialize)]
struct ConfigurationObject {
    metadata: Metadata,
    #[serde(default)]
    webhooks: Vec<WebhookObject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookObject {
    name: String,
    client_config: ClientConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    ca_bundle: Option<String>,
    service: Option<ServiceReference>,
    url: Option<String>,
}

#[derive(Deserialize)]
struct ServiceReference {
    namespace: String,
    name: String,
}

#[cfg(test)]
mod tests;
