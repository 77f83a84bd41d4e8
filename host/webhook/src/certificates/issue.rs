//! The leader's loop: keeps the Secret and the configurations as the plan wants them.
//!
//! Each look is one step: observe, plan, at most one write. A write is one request that names the version which it changes, so the
//! loop can be dropped at any point, and two leaders that overlap cannot undo each other's work.
//!
//! The state of a rotation is in the Secret, so that any leader can go on with it:
//!
//! 1. The server certificate is due, and the authority would expire before the next one. A new authority is put in front of ca.crt;
//!    the old server certificate stays.
//! 2. The configurations publish both authorities. Once they have done so for a while, the new authority signs a server certificate.
//! 3. After a longer while, all replicas serve that one, and the old authority leaves ca.crt and the configurations.
//!
//! So whoever reads the Secret at any time finds a server certificate that the API server trusts already. Only a Secret that was lost,
//! or put back from a backup, makes an exception: then the authorities that the configurations publish stay in ca.crt for a while,
//! since replicas still serve with them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use podloom_control_loop::Recorder;
use rustls::pki_types::ServerName;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cluster::{
    Configuration, Configurations, Webhook, published, trust_invalid, trusted_for,
};
use super::x509::{self, BACKDATED, Certificate, OurSecret, Pair, certificates_pem, next_secret};
use super::{Looks, OwnSetup, Problem, Served, written};

/// How many writes may follow each other at once. More can only mean that somebody else writes the same objects.
const WRITES: u32 = 8;
/// How many older authorities are kept beside the one that signs.
const OLDER_MAX: usize = 4;
/// How far two clocks may be apart before neither is trusted to end an authority.
const SKEW_MAX: Duration = Duration::from_secs(3600);
/// The shortest lifetime of a server certificate. It is for tests; anything below weeks is of no use.
const LIFETIME_MIN: Duration = Duration::from_secs(2);

/// How long things take. Short lifetimes, as in tests, make everything faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// How long a server certificate lives.
    lifetime: Duration,
    /// The pause between two looks at the cluster.
    pub(super) look: Duration,
    /// The same while something is missing.
    pub(super) soon: Duration,
    /// From the publication of an authority until every API server's watch has it.
    pub(super) settle: Duration,
    /// From the publication of an authority until every replica serves with it.
    keep: Duration,
    /// How long a replica without a certificate waits until somebody publishes the authority that it found.
    pub(super) patience: Duration,
}

impl Times {
    pub(super) fn of(lifetime: Duration) -> Self {
        let lifetime = lifetime.max(LIFETIME_MIN);
        let short = (lifetime / 30).max(Duration::from_millis(50));
        Self {
            lifetime,
            look: short.min(Duration::from_secs(10)),
            soon: short.min(Duration::from_secs(1)),
            settle: short.min(Duration::from_secs(10)),
            // Longer than two looks, the time to settle, and some requests.
            keep: (lifetime / 5).min(Duration::from_secs(3600)),
            patience: (lifetime / 10).min(Duration::from_secs(30)),
        }
    }
}

/// Issues and renews certificates, and publishes their authority. Only the leader may run it; it can be dropped at any time.
pub async fn issue(setup: OwnSetup, recorder: Arc<dyn Recorder>, stop: CancellationToken) {
    let times = Times::of(setup.lifetime);
    let id = setup.secret_name();
    let looks = Looks {
        name: "webhook-issue",
        pauses: (times.soon, times.look),
        metrics: setup.metrics.clone(),
        slot: None,
        state: Issuer {
            setup,
            times,
            trusted: None,
            writes: 0,
        },
        look: |issuer| issuer.look().boxed(),
    };
    looks.run(id, recorder, stop).await;
}

struct Issuer {
    setup: OwnSetup,
    times: Times,
    /// The authority that all webhooks trusted at the last look, and since when.
    trusted: Option<(Certificate, Instant)>,
    /// How many writes followed each other.
    writes: u32,
}

impl Issuer {
    /// Observes, plans and does one step; returns when to look again.
    async fn look(&mut self) -> Result<Duration, Problem> {
        let secret = self.setup.read_secret().await?;
        let configurations = self.setup.configurations().await?;
        let now: SystemTime = self.setup.clock.now().into();
        let machine = SystemTime::now();
        let later = now.duration_since(machine);
        let first = secret.authorities.first();
        let world = World {
            trusted_for: first
                .and_then(|first| trusted_for(&mut self.trusted, first, &configurations)),
            secret,
            configurations,
            now,
            skew: later.unwrap_or_else(|earlier| earlier.duration()),
        };
        let step = plan(&world, &self.setup.hosts, &self.times);
        if !matches!(step, Step::Doubt | Step::Write(_) | Step::Publish(_)) {
            self.writes = 0;
        }
        match step {
            Step::Rest => return Ok(self.times.look),
            Step::Wait => return Ok(self.times.soon),
            Step::Doubt => return Err(doubt(world.skew).into()),
            Step::Foreign(place) => return Err(self.foreign(place).into()),
            Step::Write(change) => self.write(change, &world).await?,
            Step::Publish(place) => self.publish(place, &world).await?,
        }
        self.writes += 1;
        Ok(match self.writes {
            ..=WRITES => Duration::ZERO,
            _ => self.times.look,
        })
    }

    fn foreign(&self, place: usize) -> String {
        let (namespace, service) = (&self.setup.namespace, &self.setup.service);
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
                let hosts = &self.setup.hosts;
                Some(x509::server(key, hosts, now, lifetime)?)
            }
            _ => None,
        };
        let mut authorities = vec![signer];
        authorities.extend(change.older);
        let stored = found.stored.as_ref();
        let mut secret = next_secret(stored, &authorities, new_key.as_ref(), leaf.as_ref());
        if stored.is_none() {
            secret.metadata.name = Some(self.setup.secret.clone());
            secret.metadata.namespace = Some(self.setup.namespace.clone());
        }
        self.setup.write_secret(&secret).await?;
        let kept = || found.serving.as_ref().ok().map(|kept| &kept.certificate);
        let until = leaf.as_ref().map(|leaf| &leaf.certificate).or_else(kept);
        tracing::info!(
            secret = self.setup.secret_name(),
            reason = change.reason,
            authorities = authorities.len(),
            until = until.map(|leaf| written(leaf.not_after)),
            "wrote the webhooks' certificate"
        );
        Ok(())
    }

    async fn publish(&self, place: usize, world: &World) -> Result<(), Problem> {
        let bundle = certificates_pem(&world.secret.authorities);
        let Some(Some(found)) = world.configurations.get(place) else {
            return Ok(());
        };
        let outdated = found.outdated(&bundle);
        let patch = found.patch(&outdated, &bundle);
        self.setup.publish(place, &patch).await?;
        let configuration = self.setup.configuration_name(place);
        let webhooks = outdated.len();
        tracing::info!(configuration, webhooks, "published the webhooks' authority");
        Ok(())
    }
}

/// Everything that a plan depends on.
struct World {
    secret: OurSecret,
    configurations: Configurations,
    /// How long all webhooks have trusted the Secret's first authority; none if they do not.
    trusted_for: Option<Duration>,
    /// The API server's time.
    now: SystemTime,
    /// How far the machine's clock is from it.
    skew: Duration,
}

/// At most one write.
#[derive(Debug)]
enum Step {
    Rest,
    /// A new authority is published, but not for long enough.
    Wait,
    Write(Change),
    /// To write the authorities into the configuration at this place.
    Publish(usize),
    /// A new authority would replace one that seems to be expired, by clocks that cannot both be right.
    Doubt,
    /// No webhook of the configuration at this place calls us; nothing else is to do.
    Foreign(usize),
}

/// The next content of the Secret. What is not new stays as it is.
#[derive(Debug)]
struct Change {
    /// Why, for the log.
    reason: &'static str,
    /// The authority that signs; none for a new one.
    signer: Option<Certificate>,
    /// The authorities behind it.
    older: Vec<Certificate>,
    /// Whether the server certificate is new.
    new_leaf: bool,
}

/// Plans the next step.
fn plan(world: &World, hosts: &[ServerName<'_>], times: &Times) -> Step {
    if let Some(change) = change(world, hosts, times) {
        let is_doubtful = world.skew > SKEW_MAX
            && change.signer.is_none()
            && trust_invalid(&world.configurations, world.now);
        return if is_doubtful {
            Step::Doubt
        } else {
            Step::Write(change)
        };
    }
    let secret = &world.secret;
    let bundle = certificates_pem(&secret.authorities);
    let place = |is: &dyn Fn(&Configuration) -> bool| {
        let mut all = world.configurations.iter();
        all.position(|found| found.as_ref().is_some_and(is))
    };
    if let Some(place) = place(&|found| !found.outdated(&bundle).is_empty()) {
        return Step::Publish(place);
    }
    if let Some(place) = place(&|found| !found.webhooks.iter().any(Webhook::is_ours)) {
        return Step::Foreign(place);
    }
    let signer = secret.authorities.first();
    match &secret.serving {
        Ok(serving) if serving.authority.as_ref() != signer => Step::Wait,
        _ => Step::Rest,
    }
}

/// The change that the Secret needs.
fn change(world: &World, hosts: &[ServerName<'_>], times: &Times) -> Option<Change> {
    let (secret, now) = (&world.secret, world.now);
    let is_trusted_for = |long| world.trusted_for.is_some_and(|trusted| trusted >= long);
    let able = secret.authorities.first();
    let able = able.filter(|first| secret.signing.is_ok() && first.is_valid_at(now));
    let serving = secret.serving.as_ref().ok();
    let serving = serving.filter(|serving| is_usable(serving, hosts, now));
    let is_by_signer = serving.is_some_and(|serving| serving.authority.as_ref() == able);
    let wants_leaf = match serving {
        None => true,
        Some(serving) if is_by_signer => is_due(&serving.certificate, now),
        Some(_) => is_trusted_for(times.settle),
    };
    // An authority signs nothing that would outlive it.
    let end = now.checked_add(times.lifetime);
    let signer = able.filter(|able| !wants_leaf || end.is_some_and(|end| end <= able.not_after));
    // A new authority waits until it is published, if there is something to serve until then.
    let new_leaf = wants_leaf && (signer.is_some() || serving.is_none());
    let is_served_everywhere = serving.is_some_and(|serving| {
        let age = now.duration_since(issued(&serving.certificate));
        is_by_signer && !wants_leaf && age.is_ok_and(|age| age >= times.keep)
    }) && is_trusted_for(times.keep);
    let older = if is_served_everywhere {
        Vec::new()
    } else {
        older(world, signer, serving)
    };
    let mut known = secret.authorities.iter().skip(1);
    let has_older = known.len() == older.len() && known.all(|known| older.contains(known));
    if signer.is_some() && !new_leaf && has_older && secret.is_tidy {
        return None;
    }
    let reason = match (able, serving) {
        _ if secret.stored.is_none() => "there was no Secret",
        (None, _) if secret.is_empty() => "the Secret was empty",
        (None, _) => "the authority cannot sign",
        (_, None) => "the server certificate is unusable",
        _ if signer.is_none() => "the authority is due",
        _ if wants_leaf && !is_by_signer => "the new authority is published",
        _ if wants_leaf => "the server certificate is due",
        _ if !has_older => "authorities that are published were missing",
        _ => "the authorities are tidied",
    };
    Some(Change {
        reason,
        signer: signer.cloned(),
        older,
        new_leaf,
    })
}

fn doubt(skew: Duration) -> String {
    let seconds = skew.as_secs();
    format!(
        "the authority that all webhooks trust seems to be expired, but the clocks of this machine and of the API server differ by \
         {seconds} s, so it is not replaced"
    )
}

/// Whether clients accept a server certificate for every host.
fn is_usable(serving: &Served, hosts: &[ServerName<'_>], now: SystemTime) -> bool {
    let mut signed = std::iter::once(&serving.certificate).chain(&serving.authority);
    signed.all(|certificate| certificate.is_valid_at(now))
        && hosts.iter().all(|host| serving.certificate.is_for(host))
}

/// The authorities to keep behind the one that signs, the most important ones first: the one that signed the server certificate, those
/// that replicas may serve with since they are published, and the others that are known.
fn older(
    world: &World,
    signer: Option<&Certificate>,
    serving: Option<&Served>,
) -> Vec<Certificate> {
    let serving = serving.and_then(|serving| serving.authority.as_ref());
    let published = published(&world.configurations);
    let mut found: Vec<Certificate> = Vec::new();
    let all = serving.into_iter().chain(published);
    for authority in all.chain(&world.secret.authorities) {
        let is_kept = authority.is_valid_at(world.now) && Some(authority) != signer;
        if is_kept && !found.contains(authority) && found.len() < OLDER_MAX {
            found.push(authority.clone());
        }
    }
    found
}

/// When a certificate of ours was made.
fn issued(certificate: &Certificate) -> SystemTime {
    certificate.not_before + BACKDATED
}

/// Whether two thirds of its lifetime are over.
fn is_due(certificate: &Certificate, now: SystemTime) -> bool {
    let issued = issued(certificate);
    let lifetime = certificate.not_after.duration_since(issued);
    now >= issued + lifetime.unwrap_or_default() / 3 * 2
}

#[cfg(test)]
mod tests;
