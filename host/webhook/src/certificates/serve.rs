//! Each replica's loop: serves what the Secret has.
//!
//! The last good certificate serves on, whatever becomes of the Secret. A certificate of another authority waits until the API server
//! trusts that one. So does the first certificate, for a while: a replica that is ready gets reviews.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use podloom_control_loop::Recorder;
use rustls::pki_types::ServerName;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cluster::{is_trusted, is_unknown, trusted_for};
use super::issue::Times;
use super::x509::{Certificate, OurSecret};
use super::{CertificateSlot, Looks, OwnSetup, Problem, Served, written};

/// Serves the certificate in the Secret, until `stop` is cancelled.
pub async fn serve_own(
    setup: OwnSetup,
    slot: Arc<CertificateSlot>,
    recorder: Arc<dyn Recorder>,
    stop: CancellationToken,
) {
    let times = Times::of(setup.lifetime);
    let id = setup.secret_name();
    let looks = Looks {
        name: "webhook-serve",
        pauses: (times.soon, times.look),
        metrics: setup.metrics.clone(),
        slot: Some(Arc::clone(&slot)),
        state: Replica {
            setup,
            times,
            slot,
            trusted: None,
            first_found: None,
        },
        look: |replica| replica.look().boxed(),
    };
    looks.run(id, recorder, stop).await;
}

struct Replica {
    setup: OwnSetup,
    times: Times,
    slot: Arc<CertificateSlot>,
    /// The authority that all webhooks trusted at the last look, and since when.
    trusted: Option<(Certificate, Instant)>,
    /// When the first usable certificate was found.
    first_found: Option<Instant>,
}

impl Replica {
    /// Serves what is in the Secret, if it is time to.
    async fn look(&mut self) -> Result<Duration, Problem> {
        let secret = self.setup.read_secret().await?;
        let (name, now) = (self.setup.secret_name(), self.setup.clock.now().into());
        let found = self.usable(secret, now)?;
        let served = self.slot.served();
        let (must_wait, who) = match &served {
            None => (self.is_early(&found).await, "a webhook trusts"),
            Some(served) => (self.waits(&found, served, now).await?, "all webhooks trust"),
        };
        if must_wait {
            let waits = format!("the certificate in {name} waits until {who} its authority");
            if self.slot.refuse(&waits) && served.is_some() {
                let message = "waits until all webhooks trust the new authority";
                tracing::info!(secret = name, "{message}");
            }
            return Ok(self.times.soon);
        }
        let missing = self.setup.hosts.iter();
        let missing = missing.filter(|host| !found.certificate.is_for(host));
        let missing: Vec<_> = missing.map(ServerName::to_str).collect();
        if !served.is_some_and(|served| served.certificate == found.certificate) {
            let until = written(found.certificate.not_after);
            self.slot.swap(found, format!("of {name}"));
            tracing::info!(secret = name, until, "serves another certificate");
        }
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(format!(
                "the certificate in {name} is not for {missing}, until the leader issues another one"
            )
            .into());
        }
        self.slot.confirm();
        Ok(self.times.look)
    }

    /// Whether webhooks exist that do not trust the first certificate yet. It serves all the same if nobody publishes its authority for
    /// a while, or if the configurations cannot be read.
    async fn is_early(&mut self, found: &Served) -> bool {
        let first_found = self.first_found.get_or_insert_with(Instant::now);
        if first_found.elapsed() >= self.times.patience {
            return false;
        }
        let configurations = self.setup.configurations().await.ok();
        let authority = found.authority.as_ref().zip(configurations);
        authority.is_some_and(|(authority, configurations)| is_unknown(authority, &configurations))
    }

    /// The server certificate in the Secret, or why there is none that could serve.
    fn usable(&self, secret: OurSecret, now: SystemTime) -> Result<Served, String> {
        let name = self.setup.secret_name();
        if secret.stored.is_none() {
            return Err(format!("{name} does not exist"));
        }
        let found = secret.serving;
        let found = found.map_err(|why| format!("{name} cannot be used: {why}"))?;
        let certificate = &found.certificate;
        if !certificate.is_valid_at(now) {
            let (from, to) = (certificate.not_before, certificate.not_after);
            let (from, to) = (written(from), written(to));
            return Err(format!(
                "the certificate in {name} is valid from {from} to {to} only"
            ));
        }
        // A replica of another version may want other hosts. If none of them is in it, the certificate is for something else.
        let mut hosts = self.setup.hosts.iter();
        if !hosts.any(|host| certificate.is_for(host)) {
            return Err(format!(
                "the certificate in {name} is for none of our hosts"
            ));
        }
        Ok(found)
    }

    /// Whether another certificate serves on, until the API server trusts the authority of this one. Reads the configurations only if
    /// they matter.
    async fn waits(
        &mut self,
        found: &Served,
        served: &Served,
        now: SystemTime,
    ) -> Result<bool, Problem> {
        let (Some(next), Some(current)) = (&found.authority, &served.authority) else {
            return Ok(false);
        };
        if !needs_trust(found, served, now) {
            return Ok(false);
        }
        let configurations = self.setup.configurations().await?;
        let trusted_for = trusted_for(&mut self.trusted, next, &configurations);
        let is_served_trusted = is_trusted(current, &configurations);
        let settle = self.times.settle;
        Ok(!is_trusted_enough(trusted_for, is_served_trusted, settle))
    }
}

/// Whether a certificate may take the place of the served one only if the API server trusts its authority.
fn needs_trust(found: &Served, served: &Served, now: SystemTime) -> bool {
    // Nobody accepts what has expired.
    let is_useful = served.certificate.is_valid_at(now);
    is_useful && served.certificate != found.certificate && served.authority != found.authority
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
