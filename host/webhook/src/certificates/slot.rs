//! Holds the certificate that serves.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::certificate::Certificate;
use super::metrics::CertificateMetrics;

/// Holds the certificate that serves. It is swapped atomically: handshakes that begin later get the new one, and connections that are
/// open go on.
pub struct CertificateSlot {
    state: ArcSwap<State>,
    filled: watch::Sender<bool>,
    pub(super) metrics: CertificateMetrics,
}

#[derive(Clone, Default)]
struct State {
    served: Option<Arc<Served>>,
    /// Why the last look brought nothing usable.
    problem: Option<Arc<str>>,
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
            state: ArcSwap::default(),
            filled: watch::Sender::new(false),
            metrics,
        }
    }

    /// Describes the certificate for readiness. An error says why no client would accept the server. A problem with the next
    /// certificate is named in both, and is no error while the one that serves is valid.
    pub fn status(&self) -> Result<String, String> {
        self.status_at(SystemTime::now())
    }

    pub(super) fn status_at(&self, now: SystemTime) -> Result<String, String> {
        let state = self.state.load();
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
        let mut filled = self.filled.subscribe();
        // The sender lives as long as the slot.
        let _never_closed = filled.wait_for(|filled| *filled).await;
    }

    pub(super) fn served(&self) -> Option<Arc<Served>> {
        self.state.load().served.clone()
    }

    /// Serves another certificate.
    pub(super) fn swap(&self, served: Served) {
        self.metrics.serves_until(served.certificate.not_after);
        self.state.store(Arc::new(State {
            served: Some(Arc::new(served)),
            problem: None,
        }));
        self.filled.send_replace(true);
    }

    /// Records that nothing is wrong with the certificate that serves; returns whether something was.
    pub(super) fn confirm(&self) -> bool {
        let state = self.state.load_full();
        if state.problem.is_some() {
            self.state.store(Arc::new(State {
                problem: None,
                ..State::clone(&state)
            }));
        }
        state.problem.is_some()
    }

    /// Records a problem; returns whether it is another one than before. What serves goes on.
    pub(super) fn refuse(&self, problem: &str) -> bool {
        let state = self.state.load_full();
        if state.problem.as_deref() == Some(problem) {
            return false;
        }
        self.state.store(Arc::new(State {
            problem: Some(problem.into()),
            ..State::clone(&state)
        }));
        true
    }
}

/// A time as people read it.
pub(super) fn written(time: SystemTime) -> String {
    Timestamp::try_from(time).map_or_else(|_| "a date far away".to_owned(), |time| time.to_string())
}

impl ResolvesServerCert for CertificateSlot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let state = self.state.load();
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
