//! The certificates with which the API server calls the webhooks.
//!
//! Two ways to get them, which fill the same [`CertificateSlot`]:
//!
//! - *Files* ([`serve_files`]): somebody else writes `tls.crt` and `tls.key`, and the caBundle of the configurations too.
//! - *Own*: the operator makes an authority and server certificates, and keeps them in a Secret. The leader writes it and the caBundle
//!   of both configurations ([`issue`]); every replica, the leader too, serves what it reads there ([`serve_own`]).
//!
//! All three are control loops with one id (`looks`). What they decide is in pure functions: `plan` for the leader, those at the end of
//! `serve` for a replica. Everything that is read, from files, the Secret or the configurations, may be damaged or hostile. Private keys are in no
//! log, error or `Debug`.

mod cluster;
mod configuration;
mod files;
mod issue;
mod looks;
mod plan;
mod secret;
mod serve;
mod slot;
mod x509;

use std::time::Duration;

use kube::Client;
use podloom_controllers::Clock;
use rustls::pki_types::ServerName;

pub use files::serve_files;
pub use issue::issue;
pub use serve::serve_own;
pub use slot::{CertificateMetrics, CertificateSlot, server_config};

/// Certificates that the operator makes itself.
#[derive(Clone)]
pub struct OwnSetup {
    /// The client. It needs the rights to get and update the Secret and to create Secrets in the namespace, and to get and patch both
    /// configurations.
    pub client: Client,
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration.
    pub configurations: String,
    /// The name of the Service, in the same namespace as the Secret. Webhooks that call neither this Service nor one of the hosts are
    /// left alone.
    pub service: String,
    /// The hosts that the server certificate is for.
    pub hosts: Hosts,
    /// How long a server certificate lives; it is renewed when two thirds are over. Its authority lives four times as long.
    pub lifetime: Duration,
    /// The API server's time, by which certificates are made and judged. The client should correct it.
    pub clock: Clock,
    /// The metrics.
    pub metrics: CertificateMetrics,
}

/// Names and addresses that a server certificate is for; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(Vec<ServerName<'static>>);

/// Why hosts can be in no certificate.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostError {
    /// There is none.
    #[error("a certificate needs at least one host")]
    None,
    /// It is neither a name nor an address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Invalid(String),
}

impl Hosts {
    /// Parses DNS names and IP addresses.
    pub fn parse<S: AsRef<str>>(hosts: &[S]) -> Result<Self, HostError> {
        if hosts.is_empty() {
            return Err(HostError::None);
        }
        let parsed = hosts.iter().map(|host| {
            let host = host.as_ref().to_owned();
            ServerName::try_from(host.clone()).map_err(|_| HostError::Invalid(host))
        });
        Ok(Self(parsed.collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests;
