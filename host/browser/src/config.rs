//! The kind BrowserConfig: the status of each says whether it serves all that it defines, and has the hash of its configuration.

mod make;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::{BrowserConfigObject, BrowserConfigStatus, SelenosisApi, Versions, names};
use podloom_engine::answer::Patched;
use podloom_engine::conditions::{ConditionStatus, NewCondition, Summary, conditions, time};
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Kind, Remains, Source, Traits};
use podloom_engine::plan::{Plan, Then};
use podloom_engine::readable::{Answered, Readable};
use podloom_engine::write::{MetadataPatch, Target};
use podloom_mutation::PodMutator;
use serde::Serialize;

use crate::kind::{Caches, Resources};
use crate::render::{Acceptance, ConfigRef, accept_one, merged_size};
use crate::warm::WarmMemory;
use crate::warm::pools::{Created, PoolAction, Pools};

/// How much work a plan may be without a thread of its own: it takes a few milliseconds. More would delay probes and the Lease.
const LIGHT: usize = 128 << 10;

/// What the controller of BrowserConfigs needs besides the [`Context`].
pub(super) struct BrowserConfigKind {
    pub(super) api: SelenosisApi,
    pub(super) resources: Resources,
    pub(super) caches: Caches,
    pub(super) mutator: Arc<dyn PodMutator>,
    pub(super) memory: WarmMemory,
    /// How long a warm pod may take to start.
    pub(super) start_within: Duration,
}

impl Kind for BrowserConfigKind {
    type Object = BrowserConfigObject;
    type World = World;
    type Action = Action;
    type Outcome = Outcome;

    const TRAITS: Traits = Traits {
        finalizer: Some(names::finalizer::BROWSER_CONFIG),
        ..Traits::of(
            "BrowserConfig",
            "browser-config",
            names::field_manager::BROWSER_CONFIG,
        )
    };

    async fn observe(
        &self,
        ctx: &Context,
        config: &BrowserConfigObject,
        _: Source,
    ) -> Result<World, Error> {
        let namespace = config.metadata.namespace.as_deref();
        let mut all = self.caches.configs.all_in(namespace);
        all.retain(|other| other.0.is_ok());
        let mut world = World {
            config: config.clone(),
            all,
            pools: Pools::default(),
        };
        world.pools = self.pools(ctx, &world).await;
        Ok(world)
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan(world, now)
    }

    fn is_heavy(&self, world: &World) -> bool {
        work(world) > LIGHT
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<Self::Outcome, Error> {
        let seen = &world.config.metadata;
        let field_manager = Self::TRAITS.field_manager;
        let target = Target::of(&ctx.client, &self.resources.config, seen, field_manager);
        match action {
            Action::Release(patch) => match target.set_metadata(seen, patch).await? {
                Patched::Object(answered) => {
                    let Answered(config): Answered<BrowserConfigObject> = *answered;
                    Ok(Outcome::Written(Some(Box::new(config))))
                }
                // It is being deleted, so a rejection is an error, and is none of these.
                Patched::Gone | Patched::Rejected(_) => Ok(Outcome::Written(None)),
            },
            Action::WriteStatus(status) => {
                let before = world.config.status.as_ref();
                let written = target.write_status(seen, before, status).await?;
                let uid = seen.uid.as_deref().unwrap_or_default();
                self.memory.has_written(uid, ctx.clock.now());
                Ok(Outcome::Written(written))
            }
            Action::Pools(PoolAction::Create(lacking)) => self.create(ctx, world, lacking).await,
            Action::Pools(PoolAction::Delete(doomed)) => self.delete(ctx, world, doomed).await,
        }
    }

    fn learn(&self, world: &mut World, outcome: Self::Outcome) -> Remains {
        match outcome {
            Outcome::Written(None) => {
                let uid = world.config.metadata.uid.as_deref();
                self.memory.keep_only(uid.unwrap_or_default(), &[]);
                return Remains::Unknown;
            }
            Outcome::Written(Some(config)) => {
                world.config = *config;
                return Remains::of(&world.config.metadata);
            }
            Outcome::Created(created) => world.pools.created(created),
            Outcome::Deleted(uids) => world.pools.deleted(&uids),
        }
        Remains::Object
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.config.metadata
    }
}

// What to do next about a BrowserConfig.

/// One action for a BrowserConfig.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Action {
    /// Remove an old finalizer.
    Release(MetadataPatch),
    /// Write the status.
    WriteStatus(Box<BrowserConfigStatus>),
    /// Create or delete warm pods.
    Pools(PoolAction),
}

/// What an action came to.
pub(crate) enum Outcome {
    /// The BrowserConfig as it is now; none if it is gone.
    Written(Option<Box<BrowserConfigObject>>),
    /// These warm pods were created.
    Created(Vec<Created>),
    /// The pods of these UIDs are being deleted, or are somebody's.
    Deleted(Vec<String>),
}

/// A BrowserConfig among those of its namespace.
pub(crate) struct World {
    pub(crate) config: BrowserConfigObject,
    /// All BrowserConfigs of the namespace, itself among them unless the cache is behind.
    pub(crate) all: Vec<Arc<Readable<BrowserConfigObject>>>,
    /// Its warm pods.
    pub(crate) pools: Pools,
}

impl World {
    /// Those of the namespace that serve. One that is being deleted no longer does.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &BrowserConfigObject> {
        let own = std::iter::once(&self.config);
        let others = self.all.iter().filter_map(|other| other.0.as_ref().ok());
        let others = others.filter(|other| other.metadata.uid != self.config.metadata.uid);
        let all = own.chain(others);
        all.filter(|config| config.metadata.deletion_timestamp.is_none())
    }
}

/// Looking at one version of the namespace costs as much as merging this many bytes.
const LOOK: usize = 32;

/// Returns how much work a plan is, in bytes to merge.
pub(crate) fn work(world: &World) -> usize {
    let others = world.all.iter().filter_map(|other| other.0.as_ref().ok());
    let browsers = others.flat_map(|other| other.spec.browsers.values());
    let versions: usize = browsers.map(Versions::len).sum();
    merged_size(&world.config.spec).saturating_add(versions.saturating_mul(LOOK))
}

/// Decides what to write, if anything.
///
/// Nothing outside the cluster needs cleaning up, so no finalizer is set. One that others left is removed on deletion.
pub(crate) fn plan(world: &World, now: Timestamp) -> Plan<Action> {
    let config = &world.config;
    let metadata = &config.metadata;
    // The write's own event makes the next plan, if there is anything to do yet.
    let nothing = Plan::wait(Then::Change);
    if let Some(action) = world.pools.action(now) {
        return Plan::act(Action::Pools(action));
    }
    if metadata.deletion_timestamp.is_some() {
        let release = MetadataPatch::without(metadata, names::finalizer::BROWSER_CONFIG);
        return Plan {
            action: release.map(Action::Release),
            ..nothing
        };
    }
    let acceptance = acceptance(world);
    let wanted = status(world, &acceptance, now);
    if let Some(then) = rest(world, &wanted, now) {
        return Plan::wait(then);
    }
    let notices = [notice(config, &acceptance), warm_notice(config, &wanted)];
    let plan = match world.pools.refused() {
        None => nothing,
        // The same pass goes on, to try again later and later.
        Some(_) => Plan::wait(Then::GoOn),
    };
    Plan {
        action: Some(Action::WriteStatus(Box::new(wanted))),
        ..plan.with_notices(notices.into_iter().flatten())
    }
}

/// Returns when to look again, if the status is as it should be, or waits because only the number of warm pods has changed.
fn rest(world: &World, wanted: &BrowserConfigStatus, now: Timestamp) -> Option<Then> {
    let seen = world.config.status.as_ref();
    let held = seen
        .filter(|seen| differ_in_numbers(seen, wanted))
        .and_then(|_| world.pools.holds_back(now));
    if held.is_none() && seen != Some(wanted) {
        return None;
    }
    if let Some(refused) = world.pools.refused() {
        return Some(Then::Retry {
            reason: names::reason::WARM_PODS_FAILED,
            message: refused.to_owned(),
            until: Timestamp::MAX,
        });
    }
    let next = world.pools.next(now);
    let times = held.into_iter().chain(next);
    Some(times.min().map_or(Then::Change, Then::At))
}

/// Whether two statuses differ in the number of warm pods alone.
fn differ_in_numbers(seen: &BrowserConfigStatus, wanted: &BrowserConfigStatus) -> bool {
    let rest = |status: &BrowserConfigStatus| {
        let mut status = status.clone();
        if let Some(warm) = &mut status.warm {
            (warm.ready, warm.wanted) = (0, 0);
        }
        status
    };
    seen != wanted && rest(seen) == rest(wanted)
}

/// Warns of what is in the way of warm pods, unless the status said so before.
fn warm_notice(config: &BrowserConfigObject, wanted: &BrowserConfigStatus) -> Option<Notice> {
    let message = wanted.warm.as_ref()?.message.as_ref()?;
    let seen = config.status.as_ref();
    let known = seen.and_then(|status| status.warm.as_ref()?.message.as_ref());
    (known != Some(message))
        .then(|| Notice::warning(names::reason::WARM_PODS_FAILED, message.clone()))
}

/// Warns of a configuration that is not accepted, unless the status said the same before.
fn notice(config: &BrowserConfigObject, acceptance: &Acceptance<'_>) -> Option<Notice> {
    let found = accepted(acceptance);
    let known = config
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|seen| {
            seen.type_ == found.type_
                && seen.reason == found.reason
                && seen.message == found.message
        });
    (!acceptance.is_accepted() && !known)
        .then(|| Notice::warning(acceptance.reason(), found.message))
}

fn status(world: &World, acceptance: &Acceptance<'_>, now: Timestamp) -> BrowserConfigStatus {
    let config = &world.config;
    let seen = config.status.as_ref();
    let version = &acceptance.version;
    let unchanged = seen.filter(|seen| seen.version.as_ref() == Some(version));
    let generation = config.metadata.generation;
    BrowserConfigStatus {
        last_updated: unchanged
            .and_then(|seen| seen.last_updated.clone())
            .or_else(|| Some(time(now))),
        version: Some(version.clone()),
        conditions: Some(conditions(
            seen.and_then(|seen| seen.conditions.as_ref()),
            findings(acceptance),
            generation,
            now,
        )),
        observed_generation: generation,
        warm: world.pools.status(now),
    }
}

fn acceptance(world: &World) -> Acceptance<'_> {
    let own = ConfigRef::from(&world.config);
    let others: Vec<ConfigRef<'_>> = world
        .all
        .iter()
        .filter_map(|other| other.0.as_ref().ok())
        .filter(|other| other.metadata.uid != world.config.metadata.uid)
        .filter(|other| other.metadata.deletion_timestamp.is_none())
        .map(ConfigRef::from)
        .collect();
    accept_one(own, &others)
}

/// All conditions: whether it is accepted, and the same for tools that know no kind.
fn findings(acceptance: &Acceptance<'_>) -> Vec<NewCondition> {
    let summary = match acceptance.is_accepted() {
        true => Summary::Ready,
        false => Summary::Stalled,
    };
    let summary = summary.conditions(acceptance.reason(), &acceptance.message());
    [accepted(acceptance)].into_iter().chain(summary).collect()
}

fn accepted(acceptance: &Acceptance<'_>) -> NewCondition {
    let status = match acceptance.is_accepted() {
        true => ConditionStatus::True,
        false => ConditionStatus::False,
    };
    let (reason, message) = (acceptance.reason(), acceptance.message());
    NewCondition::new(names::condition::ACCEPTED, status, reason, message)
}

#[cfg(test)]
mod tests;
