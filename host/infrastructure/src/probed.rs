//! The kinds that are probed, Clouds and providers of both levels: what the engine drives, the next step, and what is done.
//!
//! The status of each object says what its probe found. Our finalizer is on it for as long as a Cluster needs it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::core::{ApiResource, Object, ObjectMeta};
use podloom_api::names::infrastructure::{FIELD_MANAGER, IN_USE_FINALIZER, reason};
use podloom_engine::answer::Patched;
use podloom_engine::backoff::jittered;
use podloom_engine::conditions::{ConditionStatus, NewCondition};
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Kind, Remains, ResourceScope, Source, Traits, Unreadable};
use podloom_engine::plan::{Plan, Then, later};
use podloom_engine::write::{MetadataPatch, Target as Written};
use podloom_turns::lock;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::im::{Failure, FailureKind, InfrastructureManager};
use super::in_use::{self, Known, Live, Release, Step, Users, is_held, unless_hidden};
use super::resolve::{Caches, Key, SecretKey, SecretUse, Trouble};
use super::said::{Said, Sayings, Shared};
use super::secrets::{SecretMetas, Secrets};

/// A kind that is probed.
pub(crate) trait Probed: Sized + Send + Sync + 'static {
    /// What its objects ask for.
    type Spec: Clone + Debug + DeserializeOwned + Send + Sync + 'static;
    /// What is said of them.
    type Status: Shared + Default + Debug + DeserializeOwned + Serialize + Send + Sync + 'static;
    /// What the caches say around one.
    type Around: Send + Sync + 'static;
    /// What a probe finds.
    type Found: Clone + Send + Sync + 'static;

    /// Reads what is around an object, and what a probe of it depends on.
    fn around(parts: &Parts<Self>, object: &ObjectOf<Self>) -> (Self::Around, Basis);
    /// Returns whether there is something to probe.
    fn leads_somewhere(around: &Self::Around) -> bool;
    /// Returns the status, and the Events to publish when it is written.
    fn status(world: &World<Self>, now: Timestamp) -> (Self::Status, Vec<Notice>);
    /// Probes.
    fn probe(
        parts: &Parts<Self>,
        world: &World<Self>,
    ) -> impl Future<Output = Result<Self::Found, Error>> + Send;
    /// Returns when the next probe is due.
    fn next(world: &World<Self>, found: &Self::Found, now: Timestamp) -> Timestamp;
    /// Returns what needs an object.
    fn users(known: &Known, object: &Key) -> Users;
    /// Returns the same, as the API server knows it.
    fn live_users(live: &Live, object: &Key) -> impl Future<Output = Result<Users, Error>> + Send;
    /// Returns the UIDs of all objects.
    fn uids(known: &Known) -> HashSet<String>;
}

/// An object of a kind.
pub(crate) type ObjectOf<P> = Object<<P as Probed>::Spec, <P as Probed>::Status>;

/// The controller of a kind.
pub(crate) struct ProbedKind<P: Probed, L> {
    /// What it needs besides the [`Context`].
    pub(crate) parts: Parts<P>,
    /// The level of its objects.
    pub(crate) level: PhantomData<L>,
}

/// What a controller needs.
pub(crate) struct Parts<P: Probed> {
    /// The resource of its objects.
    pub(crate) resource: Arc<ApiResource>,
    /// What is around them.
    pub(crate) caches: Caches,
    /// What may need them.
    pub(crate) known: Known,
    /// The same, as the API server knows it.
    pub(crate) live: Live,
    /// Which Secrets there are.
    pub(crate) metas: SecretMetas,
    /// Their values.
    pub(crate) secrets: Secrets,
    /// Sends requests.
    pub(crate) im: Arc<dyn InfrastructureManager>,
    /// What was found.
    pub(crate) probes: Probes<P::Found>,
    /// What was said last in their statuses.
    pub(crate) said: Sayings<P::Status>,
}

/// An object and what is around it.
pub(crate) struct World<P: Probed> {
    pub(super) object: ObjectOf<P>,
    pub(super) around: P::Around,
    pub(super) users: Users,
    users_from: Source,
    basis: Basis,
    pub(super) probe: Option<Probe<P::Found>>,
    said: Said<P::Status>,
    /// Why our finalizer could not be written in this pass.
    refused: Option<String>,
}

/// One action for an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action<S> {
    /// Write our finalizer.
    SetMetadata(MetadataPatch),
    /// Read who needs it from the API server.
    Confirm,
    /// Ask the server.
    Probe,
    /// Write the status.
    WriteStatus(Box<S>),
}

/// What came of an action.
pub(crate) enum Outcome<P: Probed> {
    /// The object as it is now; none if it is gone.
    Object(Option<Box<ObjectOf<P>>>),
    /// The API server refused our finalizer, with this message.
    Refused(String),
    /// Who needs it.
    Users(Users),
    /// What was found.
    Probed(Probe<P::Found>),
}

impl<P: Probed> Parts<P> {
    /// Returns the versions of Secrets.
    pub(crate) fn versions<'u>(
        &self,
        uses: impl IntoIterator<Item = &'u SecretUse>,
    ) -> BTreeMap<SecretKey, Option<String>> {
        uses.into_iter()
            .map(|it| (it.secret.clone(), self.metas.version(&it.secret)))
            .collect()
    }
}

impl<P: Probed, L: Level<P>> Kind for ProbedKind<P, L> {
    type Object = ObjectOf<P>;
    type World = World<P>;
    type Action = Action<P::Status>;
    type Outcome = Outcome<P>;

    const TRAITS: Traits = L::TRAITS;

    async fn observe(
        &self,
        _: &Context,
        object: &ObjectOf<P>,
        _: Source,
    ) -> Result<World<P>, Error> {
        let parts = &self.parts;
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let (around, basis) = P::around(parts, object);
        Ok(World {
            users: P::users(&parts.known, &Key::of(&object.metadata)),
            users_from: Source::Cache,
            basis,
            probe: parts.probes.get(uid),
            said: parts.said.of(uid),
            around,
            object: object.clone(),
            refused: None,
        })
    }

    fn plan(&self, world: &World<P>, now: Timestamp) -> Plan<Action<P::Status>> {
        plan(world, now)
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World<P>,
        action: &Action<P::Status>,
    ) -> Result<Outcome<P>, Error> {
        act(&self.parts, ctx, world, action).await
    }

    fn learn(&self, world: &mut World<P>, outcome: Outcome<P>) -> Remains {
        match outcome {
            Outcome::Object(None) => return Remains::Unknown,
            Outcome::Object(Some(object)) => {
                world.object = *object;
                // Users that were read before a write say nothing about what came since.
                world.users_from = Source::Cache;
            }
            Outcome::Refused(message) => world.refused = Some(message),
            Outcome::Users(users) => {
                world.users = users;
                world.users_from = Source::Live;
            }
            Outcome::Probed(probe) => world.probe = Some(probe),
        }
        Remains::of(&world.object.metadata)
    }

    fn metadata(world: &World<P>) -> &ObjectMeta {
        &world.object.metadata
    }
}

/// Plans the next step: the finalizer first, since Clusters wait for it. Pure.
fn plan<P: Probed>(world: &World<P>, now: Timestamp) -> Plan<Action<P::Status>> {
    let metadata = &world.object.metadata;
    if world.refused.is_none() {
        match in_use::step(
            metadata,
            &world.users,
            world.users_from,
            Release::InTwoSteps,
        ) {
            Step::Rest => {}
            Step::Confirm => return Plan::act(Action::Confirm),
            Step::Write(patch) => return Plan::act(Action::SetMetadata(patch)),
        }
    }
    if metadata.deletion_timestamp.is_some() && !is_held(metadata) {
        return Plan::wait(Then::Change);
    }
    let probe = world.probe.as_ref();
    let leads_somewhere = P::leads_somewhere(&world.around);
    if leads_somewhere && probe.is_none_or(|probe| probe.is_due(&world.basis, now)) {
        return Plan::act(Action::Probe);
    }
    let (wanted, notices) = P::status(world, now);
    let is_used = world.users.clusters > 0;
    let seen = world.object.status.as_ref();
    if world.said.is_due(seen, &wanted, is_used) {
        return Plan::act(Action::WriteStatus(Box::new(wanted))).with_notices(notices);
    }
    match (&world.refused, probe) {
        (Some(message), _) => Plan::wait(in_use::retry(message)),
        (None, Some(probe)) if leads_somewhere => Plan::wait(Then::At(probe.due)),
        _ => Plan::wait(Then::Change),
    }
}

/// Executes one action. Nothing else writes.
async fn act<P: Probed>(
    parts: &Parts<P>,
    ctx: &Context,
    world: &World<P>,
    action: &Action<P::Status>,
) -> Result<Outcome<P>, Error> {
    let seen = &world.object.metadata;
    let uid = seen.uid.as_deref().unwrap_or_default();
    let written = Written::of(&ctx.client, &parts.resource, seen, FIELD_MANAGER);
    match action {
        Action::SetMetadata(patch) => {
            let patched = written.set_finalizer(seen, patch, IN_USE_FINALIZER);
            Ok(match patched.await? {
                Patched::Object(object) => Outcome::Object(Some(object)),
                Patched::Gone => Outcome::Object(None),
                Patched::Rejected(message) => Outcome::Refused(message),
            })
        }
        Action::Confirm => {
            let users = P::live_users(&parts.live, &Key::of(seen)).await;
            let users = unless_hidden(users, seen, world.users)?;
            Ok(Outcome::Users(users))
        }
        Action::Probe => {
            let found = P::probe(parts, world).await?;
            let probe = Probe {
                due: P::next(world, &found, ctx.clock.now()),
                basis: world.basis.clone(),
                found,
            };
            parts.probes.put(uid, probe.clone());
            let there = P::uids(&parts.known);
            parts.probes.keep(|uid| there.contains(uid));
            parts.said.keep(|uid| there.contains(uid));
            Ok(Outcome::Probed(probe))
        }
        Action::WriteStatus(status) => {
            let before = world.object.status.as_ref();
            let object = written.write_status(seen, before, &**status).await?;
            parts.said.put(uid, status);
            Ok(Outcome::Object(object))
        }
    }
}

// What probes of Infrastructure Managers and clouds found, in memory: after a restart all are probed again.

/// How often a provider is probed.
const INTERVAL: Duration = Duration::from_mins(1);
/// How often it is probed while something is wrong.
const AGAIN: Duration = Duration::from_secs(15);

/// How often a Cloud is asked for its quotas.
const QUOTAS: Duration = Duration::from_mins(5);
/// How long each further Cloud of a provider delays the others.
const EACH: Duration = Duration::from_secs(5);

/// What one request of a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It was answered as it should be.
    Yes,
    /// It was not, for this reason and with this sentence.
    No(&'static str, String),
    /// That cannot be said, for this reason and with this sentence.
    Unclear(&'static str, String),
}

impl Found {
    /// Returns what a failure of a request means, if the request was about whether credentials are accepted.
    pub(crate) fn of(failure: &Failure) -> Self {
        let message = failure.message.clone();
        match failure.kind {
            FailureKind::CredentialsRejected | FailureKind::NotGranted => {
                Self::No(reason::CREDENTIALS_REJECTED, message)
            }
            FailureKind::Unreachable => Self::No(reason::UNREACHABLE, message),
            FailureKind::ReadOnly => Self::Unclear(reason::READ_ONLY, message),
            // Our own limit, or a server that is busy, says nothing.
            FailureKind::Limited | FailureKind::Conflict => Self::Unclear(reason::UNKNOWN, message),
            _ => Self::No(reason::UNREACHABLE, message),
        }
    }

    /// Returns the same about something that a missing Secret keeps from being found out.
    pub(crate) fn missing(unresolved: &Trouble) -> Self {
        Self::No(unresolved.reason, unresolved.message.clone())
    }

    /// Returns a condition; `yes` is its reason and message if it is true.
    pub(crate) fn condition(
        &self,
        type_: &'static str,
        (reason, message): (&'static str, &str),
    ) -> NewCondition {
        match self {
            Self::Yes => NewCondition::new(type_, ConditionStatus::True, reason, message),
            Self::No(reason, message) => {
                NewCondition::new(type_, ConditionStatus::False, reason, message.as_str())
            }
            Self::Unclear(reason, message) => {
                NewCondition::new(type_, ConditionStatus::Unknown, reason, message.as_str())
            }
        }
    }
}

/// What a probe depends on besides the server: if it changes, it is time for another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// The generations of the objects.
    pub(crate) generations: Vec<Option<i64>>,
    /// The versions of their Secrets; none of those that are missing or may not be read.
    pub(crate) secrets: BTreeMap<SecretKey, Option<String>>,
    /// Of a Cloud: whether its provider is ready.
    pub(crate) is_provider_ready: bool,
}

/// A probe, and when the next one is due.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Probe<F> {
    /// What was found.
    pub(crate) found: F,
    /// What it depends on.
    pub(crate) basis: Basis,
    /// When the next one is due.
    pub(crate) due: Timestamp,
}

/// The latest probe of each object, by UID.
pub(crate) struct Probes<F>(Mutex<HashMap<String, Probe<F>>>);

impl<F: Clone> Probes<F> {
    /// Returns the latest probe of an object.
    pub(crate) fn get(&self, uid: &str) -> Option<Probe<F>> {
        lock(&self.0).get(uid).cloned()
    }

    /// Remembers a probe of an object.
    pub(crate) fn put(&self, uid: &str, probe: Probe<F>) {
        lock(&self.0).insert(uid.to_owned(), probe);
    }

    /// Forgets all objects but these.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.0).retain(|uid, _| is_there(uid));
    }
}

impl<F> Default for Probes<F> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<F> Probe<F> {
    /// Returns whether it is time for another one.
    pub(crate) fn is_due(&self, basis: &Basis, now: Timestamp) -> bool {
        self.basis != *basis || self.due <= now
    }
}

/// Returns when the next probe of a provider is due, plus at most a tenth: sooner if something is wrong.
pub(crate) fn next_probe(now: Timestamp, is_well: bool) -> Timestamp {
    let wait = if is_well { INTERVAL } else { AGAIN };
    later(now, jittered(wait))
}

/// Returns when a Cloud is asked for its quotas again, plus at most a tenth: the later, the more Clouds its provider has.
pub(crate) fn next_quotas(now: Timestamp, clouds: usize, is_well: bool) -> Timestamp {
    let clouds = u32::try_from(clouds).unwrap_or(u32::MAX);
    let wait = if is_well { QUOTAS } else { INTERVAL };
    later(now, jittered(wait.max(EACH.saturating_mul(clouds))))
}

/// Returns the Event about a condition that is false now, and was not or for another reason.
pub(crate) fn changed_to_false(
    before: Option<&Vec<Condition>>,
    type_: &str,
    now: &Found,
) -> Option<Notice> {
    let Found::No(reason, message) = now else {
        return None;
    };
    let mut before = before.into_iter().flatten();
    let is_known =
        before.any(|it| it.type_ == type_ && it.status == "False" && it.reason == *reason);
    (!is_known).then(|| Notice::warning(reason, message.as_str()))
}

/// Returns the UIDs of objects.
pub(crate) fn uids<K: Resource>(objects: &[Arc<K>]) -> HashSet<String> {
    let uids = objects.iter().filter_map(|it| it.meta().uid.clone());
    uids.collect()
}

// The two levels of Clouds and providers: in namespaces, for those who work there, and cluster-scoped, for all. All code is the same.

/// A level of the objects of a kind.
pub(crate) trait Level<P>: Send + Sync + 'static {
    /// What the engine must know about them.
    const TRAITS: Traits;
}

/// Clouds and InfrastructureProviders.
pub(crate) struct InNamespaces;

/// GlobalClouds and GlobalInfrastructureProviders.
pub(crate) struct Global;

/// What is the same for all of them. One that our types cannot hold keeps the finalizer, since Clusters may need it.
pub(crate) const fn guarded(
    kind: &'static str,
    controller: &'static str,
    scope: ResourceScope,
) -> Traits {
    Traits {
        scope,
        finalizer: Some(IN_USE_FINALIZER),
        unreadable: Unreadable::Keep,
        ..Traits::of(kind, controller, FIELD_MANAGER)
    }
}

#[cfg(test)]
mod tests;
