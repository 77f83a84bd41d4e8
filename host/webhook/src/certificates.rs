//! The certificates with which the API server calls the webhooks.
//!
//! Two ways to get them, which fill the same [`CertificateSlot`]:
//!
//! - *Files* ([`serve_files`]): somebody else writes `tls.crt` and `tls.key`, and the caBundle of the configurations too.
//! - *Own*: the operator makes an authority and server certificates, and keeps them in a Secret. The leader writes it and the caBundle
//!   of both configurations ([`issue`]); every replica, the leader too, serves what it reads there ([`serve_own`]).
//!
//! All three are control loops with one id (`Looks`). What they decide is in pure functions: `plan` for the leader, those at the end
//! of `serve` for a replica. Everything that is read, from files, the Secret or the configurations, may be damaged or hostile. Private
//! keys are in no log, error or `Debug`.

mod clients;
mod cluster;
mod files;
mod issue;
mod serve;
mod x509;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use podloom_control_loop::{
    ControlLoop, Ctx, Next, Options, Recorder, handler_fn, source_fn, storage_fn,
};
use podloom_engine::clock::Clock;
use podloom_metrics::{By, metrics};
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use self::x509::Certificate;
pub use clients::Clients;
pub use files::serve_files;
pub use issue::issue;
pub use serve::serve_own;

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
    /// The hosts that the server certificate is for; at least one.
    pub hosts: Vec<ServerName<'static>>,
    /// How long a server certificate lives; it is renewed when two thirds are over. Its authority lives four times as long.
    pub lifetime: Duration,
    /// The API server's time, by which certificates are made and judged. The client should correct it.
    pub clock: Clock,
    /// The metrics.
    pub metrics: CertificateMetrics,
}

/// Parses the DNS names and IP addresses that a server certificate is for. The error names the first that is neither.
pub fn parse_hosts<S: AsRef<str>>(hosts: &[S]) -> Result<Vec<ServerName<'static>>, String> {
    let parsed = hosts.iter().map(|host| {
        let host = host.as_ref().to_owned();
        let invalid = format!("{host:?} is neither a DNS name nor an IP address");
        ServerName::try_from(host).map_err(|_| invalid)
    });
    parsed.collect()
}

metrics! {
    /// Metrics of the webhooks' certificate; cheap to clone, registered once.
    #[derive(Debug)]
    pub struct CertificateMetrics {
        expiry: Gauge = "webhook_certificate_expiry_timestamp" Seconds, "When the certificate that the webhooks serve expires; 0 while there is none";
        failed: By<1> = "webhook_certificate_failed_looks", "Looks at the webhooks' certificates that found a problem or failed", By::new(["loop"]);
    }
}

/// Holds the certificate that serves. It is swapped atomically: handshakes that begin later get the new one, and connections that are
/// open go on.
pub struct CertificateSlot {
    state: watch::Sender<State>,
    metrics: CertificateMetrics,
}

#[derive(Default)]
struct State {
    served: Option<Arc<Served>>,
    /// What serves, for people: `of Secret a/b`.
    origin: String,
    /// Why the last look brought nothing usable.
    problem: Option<String>,
}

/// A certificate that serves, with its key.
struct Served {
    key: Arc<CertifiedKey>,
    certificate: Certificate,
    /// Who signed it, if that is known.
    authority: Option<Certificate>,
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

    fn status_at(&self, now: SystemTime) -> Result<String, String> {
        let state = self.state.borrow();
        let problem = state.problem.as_deref();
        let Some(served) = &state.served else {
            let why = problem.unwrap_or("none was found so far");
            return Err(format!("there is no certificate: {why}"));
        };
        let suffix = problem.map_or_else(String::new, |problem| format!("; {problem}"));
        let (origin, end) = (&state.origin, written(served.certificate.not_after));
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

    fn served(&self) -> Option<Arc<Served>> {
        self.state.borrow().served.clone()
    }

    /// Serves another certificate.
    fn swap(&self, served: Served, origin: String) {
        let expiry = served.certificate.not_after.duration_since(UNIX_EPOCH);
        let expiry = i64::try_from(expiry.unwrap_or_default().as_secs());
        self.metrics.expiry.set(expiry.unwrap_or(i64::MAX));
        self.state.send_replace(State {
            served: Some(Arc::new(served)),
            origin,
            problem: None,
        });
    }

    /// Records that nothing is wrong with the certificate that serves; returns whether something was.
    fn confirm(&self) -> bool {
        self.state
            .send_if_modified(|state| state.problem.take().is_some())
    }

    /// Records a problem; returns whether it is another one than before. What serves goes on.
    fn refuse(&self, problem: &str) -> bool {
        self.state.send_if_modified(|state| {
            state.problem.replace(problem.to_owned()).as_deref() != Some(problem)
        })
    }
}

/// A time as people read it.
fn written(time: SystemTime) -> String {
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

/// The configuration of a TLS server that serves what is in the slot: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. Without clients, it answers
/// everybody.
pub fn server_config(
    slot: Arc<CertificateSlot>,
    clients: Option<Arc<Clients>>,
) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of both versions");
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(slot);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// How many times in a row somebody else may be faster. More of them have another reason.
const RACES: u32 = 4;

/// What is wrong, for people. It never contains an object.
#[derive(Debug)]
struct Problem {
    text: String,
    /// Whether the object is another one than the one that was looked at.
    is_race: bool,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self {
            text,
            is_race: false,
        }
    }
}

/// A loop that looks again and again at one thing. What goes wrong is counted each time, logged when it changes, and tried again after
/// growing pauses.
struct Looks<S> {
    /// Its name, in metrics and logs.
    name: &'static str,
    /// The first and the longest pause after a failure.
    pauses: (Duration, Duration),
    metrics: CertificateMetrics,
    /// Where a problem is shown. Without a certificate in it nothing works, so looks do not slow down.
    slot: Option<Arc<CertificateSlot>>,
    /// What looks at something remembers.
    state: S,
    /// Looks once, and returns when to look again.
    look: for<'a> fn(&'a mut S) -> BoxFuture<'a, Result<Duration, Problem>>,
}

/// What went wrong since the last good look.
#[derive(Default)]
struct Trouble {
    problem: Option<String>,
    /// How often something went wrong in a row.
    failures: u32,
    /// How often in a row somebody else was faster.
    races: u32,
}

impl<S: Send + 'static> Looks<S> {
    /// Runs until `stop` is cancelled. `id` is what it looks at.
    async fn run(self, id: String, recorder: Arc<dyn Recorder>, stop: CancellationToken) {
        let (name, look) = (self.name, self.pauses.1);
        let ids = vec![Arc::<str>::from(id)];
        let source = source_fn(move |_| {
            let ids = ids.clone();
            async move { Ok(ids) }
        });
        let storage = storage_fn(|_, _: Arc<str>| async { Ok(Some(())) });
        // There is one worker, so nobody waits for the lock.
        let looks = Arc::new(Mutex::new((self, Trouble::default())));
        // Never fails: a look reports errors once, while the loop would log each of them.
        let handler = handler_fn(move |ctx: Ctx, _: Arc<str>, _: Option<()>| {
            let looks = Arc::clone(&looks);
            async move {
                let (looks, trouble) = &mut *looks.lock().await;
                // Every look can be dropped at any time, so a stop waits for no API server, and begins no write.
                Ok(tokio::select! {
                    () = ctx.stopping.cancelled() => Next::Settled,
                    pause = looks.turn(trouble) => Next::After(pause),
                })
            }
        });
        let control = ControlLoop {
            options: Options {
                workers: NonZeroUsize::MIN,
                resync_interval: Some(look),
                backoff_cap: look,
                // The requests and the disk have shorter limits of their own.
                handle_timeout: Duration::from_secs(60),
                drain_timeout: Duration::from_secs(1),
                ..Options::default()
            },
            recorder,
            ..ControlLoop::new(name, source, storage, handler)
        };
        control.run(stop).await;
    }

    /// Looks once, and returns when to look again.
    async fn turn(&mut self, trouble: &mut Trouble) -> Duration {
        match (self.look)(&mut self.state).await {
            Ok(pause) => {
                if std::mem::take(trouble).problem.is_some() {
                    let message = "the problem with the webhooks' certificate is solved";
                    tracing::info!("loop" = self.name, "{message}");
                }
                pause
            }
            // Expected when leaders overlap or somebody applies a manifest. It says nothing of an earlier problem.
            Err(problem) if problem.is_race && trouble.races < RACES => {
                trouble.races += 1;
                tracing::debug!(error = problem.text, "looks again");
                self.pauses.0
            }
            Err(problem) => self.report(problem.text, trouble),
        }
    }

    /// Counts a problem, logs it unless it is the same as the last one, and returns when to try again.
    fn report(&self, problem: String, trouble: &mut Trouble) -> Duration {
        self.metrics.failed.of([self.name]).inc();
        if let Some(slot) = &self.slot {
            slot.refuse(&problem);
        }
        if trouble.problem.as_ref() != Some(&problem) {
            tracing::warn!(
                "loop" = self.name,
                error = problem,
                "cannot take care of the webhooks' certificate"
            );
            trouble.problem = Some(problem);
        }
        let (first, longest) = self.pauses;
        let pause = first.saturating_mul(2_u32.saturating_pow(trouble.failures.min(16)));
        trouble.failures = trouble.failures.saturating_add(1);
        let serves = |slot: &Arc<CertificateSlot>| slot.served().is_some();
        if self.slot.as_ref().is_none_or(serves) {
            pause.min(longest)
        } else {
            first
        }
    }
}

#[cfg(test)]
mod tests;
