//! Each replica's loop: serves what the Secret has.
//!
//! The last good certificate serves on, whatever becomes of the Secret. A certificate of another authority waits until the API server
//! trusts that one. So does the first certificate, for a while: a replica that is ready gets reviews.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, Next, Recorder, Storage, source_fn,
};
use podloom_controllers::Clock;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, RequestError};
use super::decide::{Decision, Trust, decide, depends_on_trust};
use super::keyring::Serving;
use super::problems::Problems;
use super::slot::{CertificateSlot, Served, written};
use super::times::Times;
use super::trusted::TrustedSince;
use super::world::{SecretState, is_trusted, is_unknown};
use super::{OwnSetup, options};

/// The loop's name in metrics and logs.
const NAME: &str = "webhook-serve";

/// Serves the certificate in the Secret, until `stop` is cancelled.
pub async fn serve_own(
    setup: OwnSetup,
    slot: Arc<CertificateSlot>,
    recorder: Arc<dyn Recorder>,
    stop: CancellationToken,
) {
    let policy = setup.policy();
    let times = policy.times;
    let cluster = setup.cluster();
    let id: Arc<str> = cluster.secret_name().into();
    let source = source_fn(move |_| {
        let id = Arc::clone(&id);
        async move { Ok(vec![id]) }
    });
    let replica = Replica {
        problems: Problems::new(NAME, setup.metrics.clone(), (times.soon, times.look)),
        trusted: TrustedSince::default(),
        first_found: OnceLock::new(),
        clock: setup.clock,
        cluster: cluster.clone(),
        hosts: policy.hosts,
        times,
        slot,
    };
    let control = ControlLoop {
        options: options(times.look),
        recorder,
        ..ControlLoop::new(NAME, source, Secrets(cluster), replica)
    };
    control.run(stop).await;
}

/// The storage of the loop.
struct Secrets(Cluster);

impl Storage<Arc<str>> for Secrets {
    type Object = Result<SecretState, RequestError>;

    /// Never fails: the handler reports errors once, while the loop would log each of them.
    async fn get(&self, _: &Ctx, _: &Arc<str>) -> Result<Option<Self::Object>, BoxError> {
        Ok(Some(self.0.secret().await))
    }
}

/// The handler of the loop.
struct Replica {
    cluster: Cluster,
    hosts: Vec<ServerName<'static>>,
    times: Times,
    slot: Arc<CertificateSlot>,
    problems: Problems,
    trusted: TrustedSince,
    /// When the first usable certificate was found.
    first_found: OnceLock<Instant>,
    clock: Clock,
}

impl Handler<Arc<str>, Result<SecretState, RequestError>> for Replica {
    async fn handle(
        &self,
        _: &Ctx,
        _: &Arc<str>,
        object: Option<Result<SecretState, RequestError>>,
    ) -> Result<Next, BoxError> {
        // The storage always returns something.
        let Some(secret) = object else {
            return Ok(Next::Settled);
        };
        let looked = match self.usable(secret) {
            Ok(found) => self.follow(&found).await,
            Err(problem) => Err(problem),
        };
        Ok(Next::After(match looked {
            Ok(pause) => pause,
            Err(problem) => {
                self.slot.refuse(&problem);
                let pause = self.problems.report(&problem);
                // Without a certificate nothing works, so looks do not slow down.
                if self.slot.served().is_none() {
                    self.times.soon
                } else {
                    pause
                }
            }
        }))
    }
}

impl Replica {
    fn now(&self) -> SystemTime {
        self.clock.now().into()
    }

    /// The server certificate in the Secret, or why there is none that could serve.
    fn usable(&self, secret: Result<SecretState, RequestError>) -> Result<Serving, String> {
        let name = self.cluster.secret_name();
        let ours = match secret.map_err(|error| error.to_string())? {
            SecretState::Absent => return Err(format!("{name} does not exist")),
            SecretState::Foreign(why) => return Err(format!("{name} is not podloom's: {why}")),
            SecretState::Ours(ours) => ours,
        };
        let serving = ours.keyring.serving;
        let serving = serving.map_err(|why| format!("{name} cannot be used: {why}"))?;
        let (certificate, now) = (&serving.pair.certificate, self.now());
        if !certificate.is_valid_at(now) {
            return Err(format!(
                "the certificate in {name} is valid from {} to {} only",
                written(certificate.not_before),
                written(certificate.not_after)
            ));
        }
        // A replica of another version may want other hosts. If none of them is in it, the certificate is for something else.
        if !self.hosts.iter().any(|host| certificate.is_for(host)) {
            return Err(format!(
                "the certificate in {name} is for none of our hosts"
            ));
        }
        Ok(serving)
    }

    /// Serves what was found, if it is time to; returns when to look again.
    async fn follow(&self, found: &Serving) -> Result<Duration, String> {
        let served = self.slot.served();
        let known = served
            .as_ref()
            .and_then(|served| Some((&served.certificate, served.authority.as_ref()?)));
        if served.is_none() && self.is_early(found).await {
            let name = self.cluster.secret_name();
            let waits = "waits until a webhook trusts its authority";
            self.slot
                .refuse(&format!("the certificate in {name} {waits}"));
            self.problems.resolve();
            return Ok(self.times.soon);
        }
        let now = self.now();
        let trust = if depends_on_trust(found, known, now) {
            let configurations = self.cluster.configurations().await;
            let configurations = configurations.map_err(|error| error.to_string())?;
            Some(Trust {
                found: self.trusted.look(&found.authority, &configurations),
                served: known.is_some_and(|(_, authority)| is_trusted(authority, &configurations)),
            })
        } else {
            None
        };
        match decide(found, known, trust, (self.times.settle, now)) {
            Decision::Keep => {}
            Decision::Switch => self.swap(found)?,
            Decision::Wait => {
                let name = self.cluster.secret_name();
                let waits = format!(
                    "the certificate in {name} waits until all webhooks trust its authority"
                );
                if self.slot.refuse(&waits) {
                    tracing::info!(
                        secret = name,
                        "waits until all webhooks trust the new authority"
                    );
                }
                self.problems.resolve();
                return Ok(self.times.soon);
            }
        }
        self.check_hosts(found)?;
        self.slot.confirm();
        self.problems.resolve();
        Ok(self.times.look)
    }

    /// Whether webhooks exist that do not trust the first certificate yet. It serves all the same if nobody publishes its authority for
    /// a while, or if the configurations cannot be read.
    async fn is_early(&self, found: &Serving) -> bool {
        let first_found = self.first_found.get_or_init(Instant::now);
        if first_found.elapsed() >= self.times.patience {
            return false;
        }
        let configurations = self.cluster.configurations().await;
        configurations.is_ok_and(|configurations| is_unknown(&found.authority, &configurations))
    }

    fn swap(&self, found: &Serving) -> Result<(), String> {
        let certificate = &found.pair.certificate;
        let key = CertifiedKey::from_der(
            vec![certificate.der.clone()],
            found.pair.key.clone_key(),
            &ring::default_provider(),
        );
        let secret = self.cluster.secret_name();
        let key = key.map_err(|error| format!("{secret} cannot be used: {error}"))?;
        self.slot.swap(Served {
            key: Arc::new(key),
            certificate: certificate.clone(),
            authority: Some(found.authority.clone()),
            origin: format!("of {secret}"),
        });
        let until = written(certificate.not_after);
        tracing::info!(secret, until, "serves another certificate");
        Ok(())
    }

    fn check_hosts(&self, found: &Serving) -> Result<(), String> {
        let certificate = &found.pair.certificate;
        let missing: Vec<_> = self
            .hosts
            .iter()
            .filter(|host| !certificate.is_for(host))
            .map(ServerName::to_str)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let name = self.cluster.secret_name();
        Err(format!(
            "the certificate in {name} is not for {}, until the leader issues another one",
            missing.join(", ")
        ))
    }
}
