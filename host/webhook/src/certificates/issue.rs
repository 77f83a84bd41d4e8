//! The leader's loop: keeps the Secret and the configurations as the plan wants them.
//!
//! Each look is one step: observe, plan, at most one write. A write is one request that names the version which it changes, so the
//! loop can be dropped at any point, and two leaders that overlap cannot undo each other's work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, Next, Recorder, Storage, source_fn,
};
use podloom_controllers::Clock;
use rustls::pki_types::PrivateKeyDer;
use tokio_util::sync::CancellationToken;

use super::certificate::Certificate;
use super::cluster::{Cluster, RequestError};
use super::keyring::{Fields, fields};
use super::plan::{Change, Leaf, Policy, Publication, Signer, Step, plan};
use super::problems::Problems;
use super::sign::{self, Pair, SignError};
use super::times::Time;
use super::trusted::TrustedSince;
use super::world::{MANAGED_BY, SecretState, World};
use super::{OwnSetup, options};

/// The loop's name in metrics and logs.
const NAME: &str = "webhook-issue";
/// How many writes may follow each other at once. More can only mean that somebody else writes the same objects.
const WRITES: u32 = 8;
/// How many writes in a row may find that somebody else was faster. More of them have another reason.
const RACES: u32 = 4;

/// Issues and renews certificates, and publishes their authority. Only the leader may run it; it can be dropped at any time.
pub async fn issue(setup: OwnSetup, recorder: Arc<dyn Recorder>, stop: CancellationToken) {
    let policy = setup.policy();
    let times = policy.times;
    let cluster = setup.cluster();
    let id: Arc<str> = cluster.secret_name().into();
    let source = source_fn(move |_| {
        let id = Arc::clone(&id);
        async move { Ok(vec![id]) }
    });
    let issuer = Issuer {
        problems: Problems::new(NAME, setup.metrics.clone(), (times.soon, times.look)),
        trusted: TrustedSince::default(),
        writes: AtomicU32::new(0),
        races: AtomicU32::new(0),
        clock: setup.clock,
        cluster: cluster.clone(),
        policy,
    };
    let control = ControlLoop {
        options: options(times.look),
        recorder,
        ..ControlLoop::new(NAME, source, Worlds(cluster), issuer)
    };
    control.run(stop).await;
}

/// The storage of the loop.
struct Worlds(Cluster);

impl Storage<Arc<str>> for Worlds {
    type Object = Result<World, RequestError>;

    /// Never fails: the handler reports errors once, while the loop would log each of them.
    async fn get(&self, _: &Ctx, _: &Arc<str>) -> Result<Option<Self::Object>, BoxError> {
        Ok(Some(self.0.world().await))
    }
}

/// The handler of the loop.
struct Issuer {
    cluster: Cluster,
    policy: Policy,
    problems: Problems,
    trusted: TrustedSince,
    /// How many writes followed each other.
    writes: AtomicU32,
    /// How many writes in a row were refused because the object had changed.
    races: AtomicU32,
    clock: Clock,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error("{secret} is not podloom's: {reason}")]
    Stuck { secret: String, reason: String },
    #[error(
        "the authority that all webhooks trust seems to be expired, but the clocks of this machine and of the API server differ by \
         {} s, so it is not replaced", .0.as_secs()
    )]
    Doubt(Duration),
    #[error("{configuration} has no webhook that calls {service}")]
    Foreign {
        configuration: String,
        service: String,
    },
}

impl Handler<Arc<str>, Result<World, RequestError>> for Issuer {
    async fn handle(
        &self,
        _: &Ctx,
        _: &Arc<str>,
        object: Option<Result<World, RequestError>>,
    ) -> Result<Next, BoxError> {
        // The storage always returns something.
        let Some(world) = object else {
            return Ok(Next::Settled);
        };
        let stepped = match world {
            Ok(world) => self.step(&world).await,
            Err(error) => Err(error.into()),
        };
        Ok(Next::After(match stepped {
            Ok(pause) => {
                self.races.store(0, Ordering::Relaxed);
                self.problems.resolve();
                pause
            }
            // Expected when leaders overlap or somebody applies a manifest.
            Err(StepError::Request(error @ RequestError::Changed { .. }))
                if self.races.fetch_add(1, Ordering::Relaxed) < RACES =>
            {
                tracing::debug!(%error, "looks again");
                self.policy.times.soon
            }
            Err(error) => self.problems.report(&error.to_string()),
        }))
    }
}

impl Issuer {
    /// Does one step, and returns when to look again.
    async fn step(&self, world: &World) -> Result<Duration, StepError> {
        let now = self.clock.now().into();
        let time = Time {
            now,
            skew: difference(now, SystemTime::now()),
        };
        let trusted_for = match &world.secret {
            SecretState::Ours(ours) => ours
                .keyring
                .authorities
                .first()
                .and_then(|first| self.trusted.look(first, &world.configurations)),
            SecretState::Absent | SecretState::Foreign(_) => None,
        };
        let plan = plan(world, trusted_for, &self.policy, time);
        match plan.next {
            Step::Rest => {
                self.writes.store(0, Ordering::Relaxed);
                let times = self.policy.times;
                return Ok(if plan.is_waiting {
                    times.soon
                } else {
                    times.look
                });
            }
            Step::Stuck(reason) => {
                let secret = self.cluster.secret_name();
                return Err(StepError::Stuck { secret, reason });
            }
            Step::Doubt => return Err(StepError::Doubt(time.skew)),
            Step::Foreign(place) => {
                self.writes.store(0, Ordering::Relaxed);
                let (configuration, _) = self.cluster.configuration(place);
                let service = self.cluster.service_name();
                return Err(StepError::Foreign {
                    configuration,
                    service,
                });
            }
            Step::Create(change) => self.write(None, *change, now).await?,
            Step::Replace(stored, change) => self.write(Some(*stored), *change, now).await?,
            Step::Publish(publication) => self.publish(&publication).await?,
        }
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(if writes < WRITES {
            Duration::ZERO
        } else {
            self.policy.times.look
        })
    }

    async fn write(
        &self,
        stored: Option<Secret>,
        change: Change,
        now: SystemTime,
    ) -> Result<(), StepError> {
        let reason = change.reason;
        let made = make(change, &self.policy, now)?;
        match stored {
            None => self.cluster.create(&self.new_secret(made.fields)).await?,
            Some(mut stored) => {
                let labels = stored.metadata.labels.get_or_insert_default();
                labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
                stored.data.get_or_insert_default().extend(made.fields);
                self.cluster.replace(&stored).await?;
            }
        }
        tracing::info!(
            secret = self.cluster.secret_name(),
            reason,
            authorities = made.authorities,
            until = super::slot::written(made.until),
            "wrote the webhooks' certificate"
        );
        Ok(())
    }

    fn new_secret(&self, fields: Fields) -> Secret {
        let (label, value) = MANAGED_BY;
        Secret {
            metadata: ObjectMeta {
                name: Some(self.cluster.secret.clone()),
                namespace: Some(self.cluster.namespace.clone()),
                labels: Some(BTreeMap::from([(label.to_owned(), value.to_owned())])),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(fields),
            ..Secret::default()
        }
    }

    async fn publish(&self, publication: &Publication) -> Result<(), StepError> {
        self.cluster.publish(publication).await?;
        let (configuration, _) = self.cluster.configuration(publication.configuration);
        let webhooks = publication.webhooks.len();
        tracing::info!(configuration, webhooks, "published the webhooks' authority");
        Ok(())
    }
}

fn difference(one: SystemTime, two: SystemTime) -> Duration {
    let later = one.duration_since(two);
    later.unwrap_or_else(|earlier| earlier.duration())
}

/// The next content of the Secret.
struct Made {
    fields: Fields,
    authorities: usize,
    /// When the server certificate expires.
    until: SystemTime,
}

/// Makes the certificates that a change lacks.
fn make(change: Change, policy: &Policy, now: SystemTime) -> Result<Made, SignError> {
    let signer = match change.signer {
        Signer::Kept(pair) => pair,
        Signer::New => sign::authority(now, policy.lifetime)?,
    };
    let leaf = match change.leaf {
        Leaf::Kept(pair) => pair,
        Leaf::New => server(&signer.key, policy, now)?,
    };
    let authorities: Vec<Certificate> = std::iter::once(signer.certificate)
        .chain(change.older)
        .collect();
    Ok(Made {
        fields: fields(&authorities, &signer.key, &leaf),
        authorities: authorities.len(),
        until: leaf.certificate.not_after,
    })
}

fn server(key: &PrivateKeyDer<'_>, policy: &Policy, now: SystemTime) -> Result<Pair, SignError> {
    sign::server(key, &policy.hosts, now, policy.lifetime)
}
