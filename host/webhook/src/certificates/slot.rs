//! Holds the certificate that serves, and counts.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::x509::Certificate;

/// Metrics of the webhooks' certificate; cheap to clone, registered once.
#[derive(Clone, Debug, Default)]
pub struct CertificateMetrics {
    expiry: Gauge,
    failed: Family<ByLoop, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLoop {
    r#loop: &'static str,
}

impl CertificateMetrics {
    /// Registers the metrics. Call it once: a second set would be exported beside the first.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_with_unit(
            "webhook_certificate_expiry_timestamp",
            "When the certificate that the webhooks serve expires; 0 while there is none",
            Unit::Seconds,
            metrics.expiry.clone(),
        );
        registry.register(
            "webhook_certificate_failed_looks",
            "Looks at the webhooks' certificates that found a problem or failed",
            metrics.failed.clone(),
        );
        metrics
    }

    pub(super) fn failed(&self, of: &'static str) {
        self.failed.get_or_create(&ByLoop { r#loop: of }).inc();
    }
}

/// Holds the certificate that serves. It is swapped atomically: handshakes that begin later get the new one, and connections that are
/// open go on.
pub struct CertificateSlot {
    state: watch::Sender<State>,
    pub(super) metrics: CertificateMetrics,
}

#[derive(Default)]
struct State {
    served: Option<Arc<Served>>,
    /// Why the last look brought nothing usable.
    problem: Option<String>,
}

/// A certificate that serves, with its key.
pub(super) struct Served {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) certificate: Certificate,
    /// Who signed it, if that is known.
    pub(super) authority: Option<Certificate>,
    /// What it is, for people: `of Secret a/b`.
    pub(super) origin: String,
}

impl CertificateSlot {
    /// An empty slot: handshakes fail until there is a certificate.
    pub fn new(metrics: CertificateMetrics) -> Self {
        Self {
            state: watch::Sender::default(),
            metrics,
        }
    }

    /// Describes the certificate for readiness. An error says why no client would accept the server. A problem with the next
    /// certificate is named in both, and is no error while the one that serves is valid.
    pub fn status(&self) -> Result<String, String> {
        self.status_at(SystemTime::now())
    }

    pub(super) fn status_at(&self, now: SystemTime) -> Result<String, String> {
        let state = self.state.borrow();
        let problem = state.problem.as_deref();
        let Some(served) = &state.served else {
            let why = problem.unwrap_or("none was found so far");
            return Err(format!("there is no certificate: {why}"));
        };
        let suffix = problem.map_or_else(String::new, |problem| format!("; {problem}"));
        let (origin, end) = (&served.origin, written(served.certificate.not_after));
        if now > served.certificate.not_after {
            return Err(format!("the certificate {origin} expired on {end}{suffix}"));
        }
        Ok(format!(
            "serves the certificate {origin} until {end}{suffix}"
        ))
    }

    /// Waits until there is a certificate.
    pub async fn first(&self) {
        let mut state = self.state.subscribe();
        // The sender lives as long as the slot.
        let _never_closed = state.wait_for(|state| state.served.is_some()).await;
    }

    pub(super) fn served(&self) -> Option<Arc<Served>> {
        self.state.borrow().served.clone()
    }

    /// Serves another certificate.
    pub(super) fn swap(&self, served: Served) {
        let expiry = served.certificate.not_after.duration_since(UNIX_EPOCH);
        let expiry = i64::try_from(expiry.unwrap_or_default().as_secs());
        self.metrics.expiry.set(expiry.unwrap_or(i64::MAX));
        self.state.send_replace(State {
            served: Some(Arc::new(served)),
            problem: None,
        });
    }

    /// Records that nothing is wrong with the certificate that serves; returns whether something was.
    pub(super) fn confirm(&self) -> bool {
        self.state
            .send_if_modified(|state| state.problem.take().is_some())
    }

    /// Records a problem; returns whether it is another one than before. What serves goes on.
    pub(super) fn refuse(&self, problem: &str) -> bool {
        self.state.send_if_modified(|state| {
            state.problem.replace(problem.to_owned()).as_deref() != Some(problem)
        })
    }
}

/// A time as people read it.
pub(super) fn written(time: SystemTime) -> String {
    Timestamp::try_from(time).map_or_else(|_| "a date far away".to_owned(), |time| time.to_string())
}

impl ResolvesServerCert for CertificateSlot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let state = self.state.borrow();
        state.served.as_ref().map(|served| Arc::clone(&served.key))
    }
}

impl fmt::Debug for CertificateSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status();
        f.debug_tuple("CertificateSlot").field(&status).finish()
    }
}

/// The configuration of a TLS server that serves what is in the slot: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
pub fn server_config(slot: Arc<CertificateSlot>) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of both versions");
    let mut config = builder.with_no_client_auth().with_cert_resolver(slot);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}
