//! Decides what the leader does next with the Secret and the configurations.
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

use std::time::{Duration, SystemTime};

use rustls::pki_types::ServerName;

use super::configuration::{Configuration, Configurations, Publication, published, trust_invalid};
use super::secret::{OurSecret, Serving};
use super::x509::{BACKDATED, Certificate};

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
    pub(super) lifetime: Duration,
    /// The pause between two looks at the cluster.
    pub(super) look: Duration,
    /// The same while something is missing.
    pub(super) soon: Duration,
    /// From the publication of an authority until every API server's watch has it.
    pub(super) settle: Duration,
    /// From the publication of an authority until every replica serves with it.
    pub(super) keep: Duration,
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

/// Everything that a plan depends on.
pub(super) struct World {
    pub(super) secret: OurSecret,
    pub(super) configurations: Configurations,
    /// How long all webhooks have trusted the Secret's first authority; none if they do not.
    pub(super) trusted_for: Option<Duration>,
    /// The API server's time.
    pub(super) now: SystemTime,
    /// How far the machine's clock is from it.
    pub(super) skew: Duration,
}

/// At most one write.
#[derive(Debug)]
pub(super) enum Step {
    Rest,
    /// A new authority is published, but not for long enough.
    Wait,
    Write(Change),
    Publish(Publication),
    /// A new authority would replace one that seems to be expired, by clocks that cannot both be right.
    Doubt,
    /// No webhook of the configuration at this place calls us; nothing else is to do.
    Foreign(usize),
}

/// The next content of the Secret. What is not new stays as it is.
#[derive(Debug)]
pub(super) struct Change {
    /// Why, for the log.
    pub(super) reason: &'static str,
    /// The authority that signs; none for a new one.
    pub(super) signer: Option<Certificate>,
    /// The authorities behind it.
    pub(super) older: Vec<Certificate>,
    /// Whether the server certificate is new.
    pub(super) new_leaf: bool,
}

/// Plans the next step.
pub(super) fn plan(world: &World, hosts: &[ServerName<'_>], times: &Times) -> Step {
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
    if let Some(publication) = Publication::of(&world.configurations, &secret.authorities) {
        return Step::Publish(publication);
    }
    let is_foreign = |found: &Option<Configuration>| {
        found
            .as_ref()
            .is_some_and(|found| found.webhooks.is_empty())
    };
    if let Some(place) = world.configurations.iter().position(is_foreign) {
        return Step::Foreign(place);
    }
    let signer = secret.authorities.first();
    match &secret.serving {
        Ok(serving) if Some(&serving.authority) != signer => Step::Wait,
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
    let is_by_signer = serving.is_some_and(|serving| Some(&serving.authority) == able);
    let wants_leaf = match serving {
        None => true,
        Some(serving) if is_by_signer => is_due(&serving.pair.certificate, now),
        Some(_) => is_trusted_for(times.settle),
    };
    // An authority signs nothing that would outlive it.
    let end = now.checked_add(times.lifetime);
    let signer = able.filter(|able| !wants_leaf || end.is_some_and(|end| end <= able.not_after));
    // A new authority waits until it is published, if there is something to serve until then.
    let new_leaf = wants_leaf && (signer.is_some() || serving.is_none());
    let is_served_everywhere = serving.is_some_and(|serving| {
        let age = now.duration_since(issued(&serving.pair.certificate));
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

/// Whether clients accept a server certificate for every host.
fn is_usable(serving: &Serving, hosts: &[ServerName<'_>], now: SystemTime) -> bool {
    let certificate = &serving.pair.certificate;
    certificate.is_valid_at(now)
        && serving.authority.is_valid_at(now)
        && hosts.iter().all(|host| certificate.is_for(host))
}

/// The authorities to keep behind the one that signs, the most important ones first: the one that signed the server certificate, those
/// that replicas may serve with since they are published, and the others that are known.
fn older(
    world: &World,
    signer: Option<&Certificate>,
    serving: Option<&Serving>,
) -> Vec<Certificate> {
    let serving = serving.map(|serving| &serving.authority);
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
