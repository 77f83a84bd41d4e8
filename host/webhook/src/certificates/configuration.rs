//! The webhook configurations: which of their webhooks call us, and which of our authorities these trust.

use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use kube::api::ObjectMeta;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::OwnSetup;
use super::x509::{Certificate, certificates_pem, our_authorities};

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
