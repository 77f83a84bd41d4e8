//! Each replica's loop: serves what the Secret has.
//!
//! The last good certificate serves on, whatever becomes of the Secret. A certificate of another authority waits until the API server
//! trusts that one. So does the first certificate, for a while: a replica that is ready gets reviews.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use podloom_control_loop::Recorder;
use rustls::pki_types::ServerName;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cluster::{TrustedSince, is_trusted, is_unknown};
use super::issue::Times;
use super::x509::{Certificate, OurSecret, Serving};
use super::{CertificateSlot, Look, Looks, OwnSetup, Problem, Served, written};

/// Serves the certificate in the Secret, until `stop` is cancelled.
pub async fn serve_own(
    setup: OwnSetup,
    slot: Arc<CertificateSlot>,
    recorder: Arc<dyn Recorder>,
    stop: CancellationToken,
) {
    let times = Times::of(setup.lifetime);
    let replica = Replica {
        setup: setup.clone(),
        times,
        slot: Arc::clone(&slot),
        trusted: TrustedSince::default(),
        first_found: None,
    };
    let (id, metrics) = (setup.secret_name(), setup.metrics.clone());
    let pauses = (times.soon, times.look);
    let looks = Looks::new("webhook-serve", pauses, metrics, Some(slot), replica);
    let see = move || {
        let setup = setup.clone();
        async move { setup.read_secret().await }
    };
    looks.run(id, see, recorder, stop).await;
}

struct Replica {
    setup: OwnSetup,
    times: Times,
    slot: Arc<CertificateSlot>,
    trusted: TrustedSince,
    /// When the first usable certificate was found.
    first_found: Option<Instant>,
}

impl Look<OurSecret> for Replica {
    /// Serves what was found, if it is time to.
    async fn look(&mut self, secret: OurSecret) -> Result<Duration, Problem> {
        let found = self.usable(secret)?;
        let served = self.slot.served();
        let (must_wait, who) = match &served {
            None => (self.is_early(&found).await, "a webhook trusts"),
            Some(served) => (self.waits(&found, served).await?, "all webhooks trust"),
        };
        if must_wait {
            let name = self.setup.secret_name();
            let waits = format!("the certificate in {name} waits until {who} its authority");
            if self.slot.refuse(&waits) && served.is_some() {
                let message = "waits until all webhooks trust the new authority";
                tracing::info!(secret = name, "{message}");
            }
            return Ok(self.times.soon);
        }
        if !served.is_some_and(|served| served.certificate == found.pair.certificate) {
            self.swap(&found)?;
        }
        self.check_hosts(&found)?;
        self.slot.confirm();
        Ok(self.times.look)
    }
}

impl Replica {
    fn now(&self) -> SystemTime {
        self.setup.clock.now().into()
    }

    /// The server certificate in the Secret, or why there is none that could serve.
    fn usable(&self, secret: OurSecret) -> Result<Serving, String> {
        let name = self.setup.secret_name();
        if secret.stored.is_none() {
            return Err(format!("{name} does not exist"));
        }
        let serving = secret.serving;
        let serving = serving.map_err(|why| format!("{name} cannot be used: {why}"))?;
        let certificate = &serving.pair.certificate;
        if !certificate.is_valid_at(self.now()) {
            return Err(format!(
                "the certificate in {name} is valid from {} to {} only",
                written(certificate.not_before),
                written(certificate.not_after)
            ));
        }
        // A replica of another version may want other hosts. If none of them is in it, the certificate is for something else.
        if !self.hosts().any(|host| certificate.is_for(host)) {
            return Err(format!(
                "the certificate in {name} is for none of our hosts"
            ));
        }
        Ok(serving)
    }

    fn hosts(&self) -> std::slice::Iter<'_, ServerName<'static>> {
        self.setup.hosts.0.iter()
    }

    /// Whether webhooks exist that do not trust the first certificate yet. It serves all the same if nobody publishes its authority for
    /// a while, or if the configurations cannot be read.
    async fn is_early(&mut self, found: &Serving) -> bool {
        let first_found = self.first_found.get_or_insert_with(Instant::now);
        if first_found.elapsed() >= self.times.patience {
            return false;
        }
        let configurations = self.setup.configurations().await;
        configurations.is_ok_and(|configurations| is_unknown(&found.authority, &configurations))
    }

    /// Whether another certificate serves on, until the API server trusts the authority of this one. Reads the configurations only if
    /// they matter.
    async fn waits(&mut self, found: &Serving, served: &Served) -> Result<bool, Problem> {
        let Some(authority) = &served.authority else {
            return Ok(false);
        };
        if !needs_trust(found, (&served.certificate, authority), self.now()) {
            return Ok(false);
        }
        let configurations = self.setup.configurations().await?;
        let trusted_for = self.trusted.look(&found.authority, &configurations);
        let is_served_trusted = is_trusted(authority, &configurations);
        let settle = self.times.settle;
        Ok(!is_trusted_enough(trusted_for, is_served_trusted, settle))
    }

    fn swap(&self, found: &Serving) -> Result<(), String> {
        let secret = self.setup.secret_name();
        let (certificate, key) = (&found.pair.certificate, &found.pair.key);
        let key = certificate.with(key);
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
        let missing = self.hosts().filter(|host| !certificate.is_for(host));
        let missing: Vec<_> = missing.map(ServerName::to_str).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (name, missing) = (self.setup.secret_name(), missing.join(", "));
        Err(format!(
            "the certificate in {name} is not for {missing}, until the leader issues another one"
        ))
    }
}

/// Whether a certificate may take the place of the served one, which its authority signed, only if the API server trusts it.
fn needs_trust(
    found: &Serving,
    (served, authority): (&Certificate, &Certificate),
    now: SystemTime,
) -> bool {
    // Nobody accepts what has expired.
    let is_useful = served.is_valid_at(now);
    is_useful && *served != found.pair.certificate && *authority != found.authority
}

/// Whether a certificate may serve whose authority all webhooks have trusted for so long; none if they do not. `settle` is how long API
/// servers may take to see that an authority was published.
fn is_trusted_enough(
    trusted_for: Option<Duration>,
    is_served_trusted: bool,
    settle: Duration,
) -> bool {
    // If nobody trusts what serves, to wait would help only the API servers that are behind.
    trusted_for.is_some_and(|long| long >= settle || !is_served_trusted)
}

#[cfg(test)]
mod tests;
