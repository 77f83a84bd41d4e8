//! What to do next about a BrowserConfig.

use std::sync::Arc;

use jiff::Timestamp;
use podloom_api::{BrowserConfigObject, BrowserConfigStatus, Versions, names};
use podloom_engine::conditions::{ConditionStatus, NewCondition, conditions, time};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then};
use podloom_engine::readable::Readable;
use podloom_engine::write::MetadataPatch;
use serde::Serialize;

use crate::render::{Acceptance, ConfigRef, accept_one, merged_size};

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
            vec![accepted(acceptance)],
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

fn accepted(acceptance: &Acceptance<'_>) -> NewCondition {
    NewCondition {
        type_: names::condition::ACCEPTED,
        status: if acceptance.is_accepted() {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        },
        reason: acceptance.reason().to_owned(),
        message: acceptance.message(),
    }
}

#[cfg(test)]
mod tests;
