//! The leader's loop: keeps the Secret and the configurations as the plan wants them.
//!
//! Each look is one step: observe, plan, at most one write. A write is one request that names the version which it changes, so the
//! loop can be dropped at any point, and two leaders that overlap cannot undo each other's work.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use podloom_control_loop::Recorder;
use tokio_util::sync::CancellationToken;

use super::OwnSetup;
use super::configuration::{Configurations, Publication, TrustedSince};
use super::looks::{Look, Looks, Problem};
use super::plan::{Change, Step, Times, World, plan};
use super::secret::{self, OurSecret};
use super::slot::written;
use super::x509::{self, Pair};

/// How many writes may follow each other at once. More can only mean that somebody else writes the same objects.
const WRITES: u32 = 8;

/// Issues and renews certificates, and publishes their authority. Only the leader may run it; it can be dropped at any time.
pub async fn issue(setup: OwnSetup, recorder: Arc<dyn Recorder>, stop: CancellationToken) {
    let times = Times::of(setup.lifetime);
    let issuer = Issuer {
        setup: setup.clone(),
        times,
        trusted: TrustedSince::default(),
        writes: 0,
    };
    let (id, metrics) = (setup.secret_name(), setup.metrics.clone());
    let pauses = (times.soon, times.look);
    let looks = Looks::new("webhook-issue", pauses, metrics, None, issuer);
    let see = move || {
        let setup = setup.clone();
        async move { Ok((setup.read_secret().await?, setup.configurations().await?)) }
    };
    looks.run(id, see, recorder, stop).await;
}

struct Issuer {
    setup: OwnSetup,
    times: Times,
    trusted: TrustedSince,
    /// How many writes followed each other.
    writes: u32,
}

impl Look<(OurSecret, Configurations)> for Issuer {
    async fn look(
        &mut self,
        (secret, configurations): (OurSecret, Configurations),
    ) -> Result<Duration, Problem> {
        let now: SystemTime = self.setup.clock.now().into();
        let machine = SystemTime::now();
        let later = now.duration_since(machine);
        let first = secret.authorities.first();
        let world = World {
            trusted_for: first.and_then(|first| self.trusted.look(first, &configurations)),
            secret,
            configurations,
            now,
            skew: later.unwrap_or_else(|earlier| earlier.duration()),
        };
        self.step(&world).await
    }
}

impl Issuer {
    /// Does one step, and returns when to look again.
    async fn step(&mut self, world: &World) -> Result<Duration, Problem> {
        match plan(world, &self.setup.hosts.0, &self.times) {
            Step::Write(change) => self.write(change, world).await?,
            Step::Publish(publication) => self.publish(&publication).await?,
            Step::Doubt => {
                let text = "the authority that all webhooks trust seems to be expired, but the clocks of this machine and of the API \
                            server differ by";
                let seconds = world.skew.as_secs();
                return Err(format!("{text} {seconds} s, so it is not replaced").into());
            }
            other => {
                self.writes = 0;
                return match other {
                    Step::Foreign(place) => Err(self.foreign(place).into()),
                    Step::Wait => Ok(self.times.soon),
                    _ => Ok(self.times.look),
                };
            }
        }
        self.writes += 1;
        let is_few = self.writes <= WRITES;
        Ok(if is_few {
            Duration::ZERO
        } else {
            self.times.look
        })
    }

    fn foreign(&self, place: usize) -> String {
        let OwnSetup {
            namespace, service, ..
        } = &self.setup;
        let configuration = self.setup.configuration_name(place);
        format!(
            "{configuration} has no webhook that calls Service {namespace}/{service}, or a URL with a host of the certificate"
        )
    }

    /// Makes the certificates that a change lacks, and writes the Secret.
    async fn write(&self, change: Change, world: &World) -> Result<(), Problem> {
        let (now, lifetime, found) = (world.now, self.times.lifetime, &world.secret);
        let (signer, new_key) = match change.signer {
            Some(kept) => (kept, None),
            None => {
                let Pair { certificate, key } = x509::authority(now, lifetime)?;
                (certificate, Some(key))
            }
        };
        let leaf = match (&new_key, &found.signing) {
            (Some(key), _) | (None, Ok(key)) if change.new_leaf => {
                let hosts = &self.setup.hosts.0;
                Some(x509::server(key, hosts, now, lifetime)?)
            }
            _ => None,
        };
        let mut authorities = vec![signer];
        authorities.extend(change.older);
        let stored = found.stored.as_ref();
        let mut secret = secret::written(stored, &authorities, new_key.as_ref(), leaf.as_ref());
        if stored.is_none() {
            secret.metadata.name = Some(self.setup.secret.clone());
            secret.metadata.namespace = Some(self.setup.namespace.clone());
        }
        self.setup.write_secret(&secret).await?;
        let kept = || found.serving.as_ref().ok().map(|serving| &serving.pair);
        let until = leaf.as_ref().or_else(kept);
        tracing::info!(
            secret = self.setup.secret_name(),
            reason = change.reason,
            authorities = authorities.len(),
            until = until.map(|pair| written(pair.certificate.not_after)),
            "wrote the webhooks' certificate"
        );
        Ok(())
    }

    async fn publish(&self, publication: &Publication) -> Result<(), Problem> {
        self.setup.publish(publication).await?;
        let configuration = self.setup.configuration_name(publication.configuration);
        let webhooks = publication.webhooks.len();
        tracing::info!(configuration, webhooks, "published the webhooks' authority");
        Ok(())
    }
}
