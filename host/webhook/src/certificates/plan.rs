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

use k8s_openapi::api::core::v1::Secret;
use rustls::pki_types::ServerName;

use super::certificate::Certificate;
use super::keyring::Serving;
use super::sign::{BACKDATED, Pair, certificates_pem};
use super::times::{Time, Times};
use super::world::{Configuration, OurSecret, SecretState, World, published, trusted};

/// How many older authorities are kept beside the one that signs.
pub(super) const OLDER_MAX: usize = 4;

/// How far two clocks may be apart before neither is trusted to end an authority.
const SKEW_MAX: Duration = Duration::from_secs(3600);

/// What certificates must be like.
pub(super) struct Policy {
    /// The hosts that the server certificate is for.
    pub(super) hosts: Vec<ServerName<'static>>,
    /// How long a server certificate lives.
    pub(super) lifetime: Duration,
    /// How long things take.
    pub(super) times: Times,
}

/// What to do now.
pub(super) struct Plan {
    pub(super) next: Step,
    /// Whether something is missing or under way, so that the next look comes soon.
    pub(super) is_waiting: bool,
}

/// At most one write.
pub(super) enum Step {
    Rest,
    /// Nothing can be done before somebody else does something; the text says what.
    Stuck(String),
    Create(Box<Change>),
    Replace(Box<Secret>, Box<Change>),
    Publish(Publication),
    /// A new authority would replace one that seems to be expired, by clocks that cannot both be right.
    Doubt,
    /// No webhook of the configuration at this place calls us; nothing else is to do.
    Foreign(usize),
}

/// The next content of the Secret.
pub(super) struct Change {
    /// Why, for the log.
    pub(super) reason: &'static str,
    pub(super) signer: Signer,
    /// The authorities behind the one that signs.
    pub(super) older: Vec<Certificate>,
    pub(super) leaf: Leaf,
}

/// The authority that signs.
pub(super) enum Signer {
    New,
    Kept(Pair),
}

/// The server certificate.
pub(super) enum Leaf {
    New,
    Kept(Pair),
}

/// A caBundle for some webhooks of a configuration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Publication {
    /// The place of the configuration in the World.
    pub(super) configuration: usize,
    pub(super) resource_version: String,
    /// Place and name of each webhook that has another caBundle.
    pub(super) webhooks: Vec<(usize, String)>,
    pub(super) bundle: String,
}

/// Plans the next step. `trusted_for` is how long all webhooks have trusted the Secret's first authority; none if they do not.
pub(super) fn plan(
    world: &World,
    trusted_for: Option<Duration>,
    policy: &Policy,
    Time { now, skew }: Time,
) -> Plan {
    let is_doubtful = |change: &Change| skew > SKEW_MAX && loses_trusted(world, change, now);
    let ours = match &world.secret {
        SecretState::Foreign(reason) => return plan_of(Step::Stuck(reason.clone())),
        SecretState::Absent => {
            let change = fresh("there was no Secret", world, &[], None, now);
            return plan_of(if is_doubtful(&change) {
                Step::Doubt
            } else {
                Step::Create(change)
            });
        }
        SecretState::Ours(ours) => ours,
    };
    let scene = Scene {
        world,
        ours,
        trusted_for,
        policy,
        now,
    };
    let verdict = scene.judge();
    if let Verdict::Change(change) = verdict {
        return plan_of(if is_doubtful(&change) {
            Step::Doubt
        } else {
            Step::Replace(Box::new(ours.stored.clone()), change)
        });
    }
    if let Some(publication) = publication(world, &ours.keyring.authorities) {
        return plan_of(Step::Publish(publication));
    }
    if let Some(foreign) = world
        .configurations
        .iter()
        .position(Configuration::is_foreign)
    {
        return plan_of(Step::Foreign(foreign));
    }
    Plan {
        next: Step::Rest,
        is_waiting: matches!(verdict, Verdict::Wait),
    }
}

fn plan_of(next: Step) -> Plan {
    Plan {
        next,
        is_waiting: false,
    }
}

/// What is looked at to judge a Secret.
struct Scene<'a> {
    world: &'a World,
    ours: &'a OurSecret,
    trusted_for: Option<Duration>,
    policy: &'a Policy,
    now: SystemTime,
}

enum Verdict {
    Fine,
    Wait,
    Change(Box<Change>),
}

impl Scene<'_> {
    fn judge(&self) -> Verdict {
        let serving = self.serving();
        let kept = |serving: &Serving| Some(serving.clone());
        let Some(signer) = self.signer() else {
            let reason = if self.ours.is_empty() {
                "the Secret was empty"
            } else {
                "the authority cannot sign"
            };
            return Verdict::Change(self.fresh(reason, serving.and_then(kept)));
        };
        let Some(serving) = serving else {
            return Verdict::Change(self.leaf("the server certificate is unusable", signer));
        };
        if serving.authority != signer.certificate {
            return if self.is_trusted_for(self.policy.times.settle) {
                Verdict::Change(self.leaf("the new authority is published", signer))
            } else {
                self.complete(signer, serving)
            };
        }
        if is_due(&serving.pair.certificate, self.now) {
            let reason = "the server certificate is due";
            let change = if self.outlives(&signer.certificate) {
                self.leaf(reason, signer)
            } else {
                self.fresh("the authority is due", kept(serving))
            };
            return Verdict::Change(change);
        }
        self.tidy(signer, serving)
    }

    /// The first authority with its key, if it can sign.
    fn signer(&self) -> Option<Pair> {
        let keyring = &self.ours.keyring;
        let certificate = keyring.authorities.first()?;
        let key = keyring.signing.as_ref().ok()?.clone_key();
        certificate.is_valid_at(self.now).then(|| Pair {
            certificate: certificate.clone(),
            key,
        })
    }

    /// The server certificate, if clients accept it for every host.
    fn serving(&self) -> Option<&Serving> {
        let serving = self.ours.keyring.serving.as_ref().ok()?;
        let certificate = &serving.pair.certificate;
        let is_usable = certificate.is_valid_at(self.now)
            && serving.authority.is_valid_at(self.now)
            && self
                .policy
                .hosts
                .iter()
                .all(|host| certificate.is_for(host));
        is_usable.then_some(serving)
    }

    fn outlives(&self, authority: &Certificate) -> bool {
        let end = self.now.checked_add(self.policy.lifetime);
        end.is_some_and(|end| end <= authority.not_after)
    }

    fn is_trusted_for(&self, long: Duration) -> bool {
        self.trusted_for.is_some_and(|trusted| trusted >= long)
    }

    /// The authorities behind the first one: the Secret's own, and those that the configurations publish, since replicas may still
    /// serve with them. The one that signed the server certificate is among them, whatever else there is.
    fn older(&self) -> Vec<Certificate> {
        let known = &self.ours.keyring.authorities;
        let mut older = behind(self.world, known, self.serving(), self.now);
        older.retain(|older| Some(older) != known.first());
        older.truncate(OLDER_MAX);
        older
    }

    /// Whether these are the authorities behind the first one already.
    fn has_older(&self, older: &[Certificate]) -> bool {
        let mut known = self.ours.keyring.authorities.iter().skip(1);
        known.len() == older.len() && known.all(|known| older.contains(known))
    }

    /// A new server certificate, by the same authority unless that would expire first.
    fn leaf(&self, reason: &'static str, signer: Pair) -> Box<Change> {
        if !self.outlives(&signer.certificate) {
            return self.fresh(reason, None);
        }
        Box::new(Change {
            reason,
            signer: Signer::Kept(signer),
            older: self.older(),
            leaf: Leaf::New,
        })
    }

    fn fresh(&self, reason: &'static str, kept: Option<Serving>) -> Box<Change> {
        let authorities = &self.ours.keyring.authorities;
        fresh(reason, self.world, authorities, kept, self.now)
    }

    /// Keeps what is published, while the new authority is not trusted yet.
    fn complete(&self, signer: Pair, serving: &Serving) -> Verdict {
        let older = self.older();
        if self.has_older(&older) {
            return Verdict::Wait;
        }
        Verdict::Change(Box::new(Change {
            reason: "authorities that are published were missing",
            signer: Signer::Kept(signer),
            older,
            leaf: Leaf::Kept(serving.pair.clone()),
        }))
    }

    /// Drops what is needed no more, and writes ca.crt as it should be written.
    fn tidy(&self, signer: Pair, serving: &Serving) -> Verdict {
        let keep = self.policy.times.keep;
        let age = self.now.duration_since(issued(&serving.pair.certificate));
        let is_served_everywhere = self.is_trusted_for(keep) && age.is_ok_and(|age| age >= keep);
        let older: Vec<Certificate> = if is_served_everywhere {
            Vec::new()
        } else {
            self.older()
        };
        if self.ours.is_tidy() && self.has_older(&older) {
            return Verdict::Fine;
        }
        Verdict::Change(Box::new(Change {
            reason: "the authorities are tidied",
            signer: Signer::Kept(signer),
            older,
            leaf: Leaf::Kept(serving.pair.clone()),
        }))
    }
}

/// A new authority. The ones before stay behind it, first of all the one that signed the server certificate that is kept.
fn fresh(
    reason: &'static str,
    world: &World,
    known: &[Certificate],
    kept: Option<Serving>,
    now: SystemTime,
) -> Box<Change> {
    let mut older = behind(world, known, kept.as_ref(), now);
    older.truncate(OLDER_MAX);
    Box::new(Change {
        reason,
        signer: Signer::New,
        older,
        leaf: kept.map_or(Leaf::New, |serving| Leaf::Kept(serving.pair)),
    })
}

/// The authorities to keep, the most important ones first: the one that signed the server certificate, those that replicas may serve
/// with since they are published, and the others that are known.
fn behind(
    world: &World,
    known: &[Certificate],
    serving: Option<&Serving>,
    now: SystemTime,
) -> Vec<Certificate> {
    let signer = serving.map(|serving| &serving.authority);
    let published = published(&world.configurations, now);
    let mut found: Vec<Certificate> = Vec::new();
    for authority in signer.into_iter().chain(&published).chain(known) {
        if authority.is_valid_at(now) && !found.contains(authority) {
            found.push(authority.clone());
        }
    }
    found
}

/// Whether a new authority takes the place of one that all webhooks trust, because of the time alone.
fn loses_trusted(world: &World, change: &Change, now: SystemTime) -> bool {
    let trusted = trusted(&world.configurations);
    let is_lost = trusted.iter().any(|trusted| !trusted.is_valid_at(now));
    is_lost && matches!(change.signer, Signer::New)
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

/// The first configuration with a webhook that has another caBundle.
fn publication(world: &World, authorities: &[Certificate]) -> Option<Publication> {
    let bundle = certificates_pem(authorities.iter());
    let mut configurations = world.configurations.iter().enumerate();
    configurations.find_map(|(place, configuration)| {
        let Configuration::Present {
            resource_version,
            webhooks,
        } = configuration
        else {
            return None;
        };
        let outdated: Vec<(usize, String)> = webhooks
            .iter()
            .filter(|webhook| webhook.bundle != bundle.as_bytes())
            .map(|webhook| (webhook.place, webhook.name.clone()))
            .collect();
        (!outdated.is_empty()).then(|| Publication {
            configuration: place,
            resource_version: resource_version.clone(),
            webhooks: outdated,
            bundle: bundle.clone(),
        })
    })
}

#[cfg(test)]
mod tests;
