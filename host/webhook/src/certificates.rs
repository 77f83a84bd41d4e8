//! The certificates with which the API server calls the webhooks.
//!
//! Two ways to get them, which fill the same [`CertificateSlot`]:
//!
//! - *Files* ([`serve_files`]): somebody else writes `tls.crt` and `tls.key`, and the caBundle of the configurations too.
//! - *Own*: the operator makes an authority and server certificates, and keeps them in a Secret. The leader writes it and the caBundle
//!   of both configurations ([`issue`]); every replica, the leader too, serves what it reads there ([`serve_own`]).
//!
//! All three are control loops with one id. What they decide is in pure functions: `plan` for the leader, `decide` for a replica.
//! Everything that is read, from files, the Secret or the configurations, may be damaged or hostile. Private keys are in no log, error
//! or `Debug`.

mod certificate;
mod cluster;
mod decide;
mod files;
mod issue;
mod keyring;
mod metrics;
mod plan;
mod problems;
mod serve;
mod sign;
mod slot;
mod times;
mod trusted;
mod world;

use std::num::NonZeroUsize;
use std::time::Duration;

use kube::Client;
use podloom_control_loop::Options;
use podloom_controllers::Clock;
use rustls::pki_types::ServerName;

use cluster::Cluster;
use plan::Policy;
use times::Times;
use world::Endpoint;

pub use files::serve_files;
pub use issue::issue;
pub use metrics::CertificateMetrics;
pub use serve::serve_own;
pub use slot::{CertificateSlot, server_config};

/// The shortest lifetime of a server certificate. It is for tests; anything below weeks is of no use.
const LIFETIME_MIN: Duration = Duration::from_secs(2);

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
            let host = host.as_ref();
            let invalid = |_| HostError::Invalid(host.to_owned());
            ServerName::try_from(host.to_owned()).map_err(invalid)
        });
        Ok(Self(parsed.collect::<Result<_, _>>()?))
    }
}

impl OwnSetup {
    fn policy(&self) -> Policy {
        let lifetime = self.lifetime.max(LIFETIME_MIN);
        Policy {
            hosts: self.hosts.0.clone(),
            lifetime,
            times: Times::of(lifetime),
        }
    }

    fn cluster(&self) -> Cluster {
        Cluster {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            secret: self.secret.clone(),
            configurations: self.configurations.clone(),
            endpoint: Endpoint {
                service: (self.namespace.clone(), self.service.clone()),
                hosts: self.hosts.0.clone(),
            },
        }
    }
}

/// The options of a loop with one id, which its handler looks at again by itself.
fn options(look: Duration) -> Options {
    Options {
        workers: NonZeroUsize::MIN,
        resync_interval: Some(look),
        backoff_cap: look,
        // The requests and the disk have shorter limits of their own.
        get_timeout: Duration::from_secs(60),
        handle_timeout: Duration::from_secs(60),
        drain_timeout: Duration::from_secs(1),
        ..Options::default()
    }
}

#[cfg(test)]
mod tests;
