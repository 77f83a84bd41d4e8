//! The kind BrowserConfig: the status of each says whether it serves all that it defines, and has the hash of its configuration.

use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::{BrowserConfigObject, BrowserConfigStatus, Versions, names};
use podloom_engine::answer::Patched;
use podloom_engine::cache::Cache;
use podloom_engine::conditions::{ConditionStatus, NewCondition, Summary, conditions, time};
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Kind, Remains, Source, Traits};
use podloom_engine::plan::{Plan, Then};
use podloom_engine::readable::{Answered, Readable};
use podloom_engine::write::{MetadataPatch, Target};
use serde::Serialize;

use crate::render::{Acceptance, ConfigRef, accept_one, merged_size};

/// How much work a plan may be without a thread of its own: it takes a few milliseconds. More would delay probes and the Lease.
const LIGHT: usize = 128 << 10;

/// What the controller of BrowserConfigs needs besides the [`Context`].
pub(super) struct BrowserConfigKind {
    pub(super) resource: Arc<ApiResource>,
    pub(super) configs: Cache<Readable<BrowserConfigObject>>,
}

impl Kind for BrowserConfigKind {
    type Object = BrowserConfigObject;
    type World = World;
    type Action = Action;
    /// The BrowserConfig as it is now; none if it is gone.
    type Outcome = Option<Box<BrowserConfigObject>>;

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
        _: &Context,
        config: &BrowserConfigObject,
        _: Source,
    ) -> Result<World, Error> {
        let namespace = config.metadata.namespace.as_deref();
        let mut all = self.configs.all_in(namespace);
        all.retain(|other| other.0.is_ok());
        Ok(World {
            config: config.clone(),
            all,
        })
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
        let target = Target::of(&ctx.client, &self.resource, seen, field_manager);
        match action {
            Action::Release(patch) => match target.set_metadata(seen, patch).await? {
                Patched::Object(answered) => {
                    let Answered(config): Answered<BrowserConfigObject> = *answered;
                    Ok(Some(Box::new(config)))
                }
                // It is being deleted, so a rejection is an error, and is none of these.
                Patched::Gone | Patched::Rejected(_) => Ok(None),
            },
            Action::WriteStatus(status) => {
                let before = world.config.status.as_ref();
                target.write_status(seen, before, status).await
            }
        }
    }

    fn learn(&self, world: &mut World, outcome: Self::Outcome) -> Remains {
        let Some(config) = outcome else {
            return Remains::Unknown;
        };
        world.config = *config;
        Remains::of(&world.config.metadata)
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
}

/// A BrowserConfig among those of its namespace.
pub(crate) struct World {
    pub(crate) config: BrowserConfigObject,
    /// All BrowserConfigs of the namespace, itself among them unless the cache is behind.
    pub(crate) all: Vec<Arc<Readable<BrowserConfigObject>>>,
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
    if metadata.deletion_timestamp.is_some() {
        let release = MetadataPatch::without(metadata, names::finalizer::BROWSER_CONFIG);
        return Plan {
            action: release.map(Action::Release),
            ..nothing
        };
    }
    let acceptance = acceptance(world);
    let wanted = status(config, &acceptance, now);
    if Some(&wanted) == config.status.as_ref() {
        return nothing;
    }
    Plan {
        action: Some(Action::WriteStatus(Box::new(wanted))),
        ..nothing.with_notices(notice(config, &acceptance))
    }
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

fn status(
    config: &BrowserConfigObject,
    acceptance: &Acceptance<'_>,
    now: Timestamp,
) -> BrowserConfigStatus {
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
