//! The kinds that are probed, Clouds and providers of both levels: what the engine drives, the next step, and what is done.
//!
//! The status of each object says what its probe found. Our finalizer is on it for as long as a Cluster needs it.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{ApiResource, Object, ObjectMeta};
use podloom_api::names::infrastructure::{FIELD_MANAGER, IN_USE_FINALIZER};
use podloom_engine::answer::Patched;
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Kind, Remains, Source, Traits};
use podloom_engine::plan::{Plan, Then};
use podloom_engine::write::{MetadataPatch, Target as Written};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::im::InfrastructureManager;
use super::in_use::{self, Known, Live, Release, Step, Users, is_held, unless_hidden};
use super::level::Level;
use super::probe::{Basis, Probe, Probes};
use super::resolve::{Caches, Key, SecretKey, SecretUse};
use super::said::{Said, Sayings, Shared};
use super::secret_metas::SecretMetas;
use super::secrets::Secrets;

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
        let secrets = uses.into_iter().map(SecretUse::secret);
        secrets
            .map(|secret| (secret.clone(), self.metas.version(&secret)))
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
