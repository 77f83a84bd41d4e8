//! The Cleaner that an object with a lifetime has, and the next step towards it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::names::cleaner::event;
use podloom_api::{CleanerDeletion, CleanerSpec, CleanerTarget, TargetReference, duration};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};
use serde::Serialize;

use super::marks::{Expiry, Mark};
use crate::world::StoredCleaner;

/// How much later than the marks say a Cleaner may be: making it takes a moment, and is not worth a second write.
const LATE: Duration = Duration::from_secs(10);
/// How long a Cleaner that exists may take to show in the cache.
const UNSEEN: Duration = Duration::from_secs(5);
/// How long what was refused is not tried again, at most.
const REFUSED: Duration = Duration::from_mins(5);
/// How many characters of a Cleaner's name are kind and name of the object: far less than a name may have.
const NAME_MAX: usize = 200;
/// How many characters of the UID follow.
const UID: usize = 8;
/// What the conditions of a Cleaner call the object.
const VARIABLE: &str = "object";

/// An object of a kind whose lifetimes count.
#[derive(Clone)]
pub(super) struct World {
    pub(super) object: ObjectMeta,
    pub(super) kind: Arc<ApiResource>,
    /// What its marks say, or what is wrong with them.
    pub(super) expiry: Result<Option<Expiry>, String>,
    /// Whether it was read from the API server.
    pub(super) is_live: bool,
    pub(super) cleaner: Found,
    /// Whether its Cleaner is made to delete nothing.
    pub(super) is_dry_run: bool,
    /// What was last told to those who look at the object.
    pub(super) told: Option<String>,
    /// Why a write was refused.
    pub(super) refused: Option<String>,
}

/// What there is under the name that the object's Cleaner has.
#[derive(Clone)]
pub(super) enum Found {
    Nothing,
    /// The API server says that there is a Cleaner, but the cache does not show it yet.
    Unseen,
    Ours(Box<StoredCleaner>),
    /// A Cleaner that somebody else has made, or that cannot be read.
    Foreign,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum Action {
    /// Read the object: no cache decides that it gets a Cleaner.
    Read,
    Create(Box<CleanerSpec>),
    Change(Box<CleanerSpec>),
    /// Delete the Cleaner.
    Delete,
    /// Tell those who look at the object; the Event of the plan says it.
    Tell(String),
}

/// Decides the next step.
pub(super) fn plan(world: &World, now: Timestamp) -> Plan<Action> {
    if world.object.deletion_timestamp.is_some() {
        // It takes its Cleaner with it.
        return Plan::wait(Then::Change);
    }
    if let Some(refused) = &world.refused {
        return tell(world, refused).unwrap_or_else(|| again(refused, now));
    }
    match (&world.expiry, &world.cleaner) {
        // It begins to delete, or is being deleted: its end wakes the object.
        (_, Found::Ours(cleaner)) if is_committed(cleaner) => Plan::wait(Then::Change),
        (Ok(None) | Err(_), Found::Ours(_)) => Plan::act(Action::Delete),
        (Ok(None), _) => Plan::wait(Then::Change),
        (Err(problem), _) => told(
            world,
            &format!("{problem}; until then nothing deletes this"),
        ),
        (Ok(Some(_)), Found::Foreign) => told(world, &foreign(world)),
        (Ok(Some(_)), Found::Unseen) => Plan::wait(Then::At(later(now, UNSEEN))),
        (Ok(Some(_)), Found::Nothing) if !world.is_live => Plan::act(Action::Read),
        (Ok(Some(expiry)), Found::Nothing) => {
            Plan::act(Action::Create(Box::new(new_spec(world, expiry, now))))
        }
        (Ok(Some(expiry)), Found::Ours(cleaner)) => match changed(world, expiry, cleaner) {
            Some(spec) => Plan::act(Action::Change(Box::new(spec))),
            None => Plan::wait(Then::Change),
        },
    }
}

fn is_committed(cleaner: &StoredCleaner) -> bool {
    let status = cleaner.status.as_ref();
    cleaner.metadata.deletion_timestamp.is_some()
        || status.is_some_and(|status| status.deletion.is_some())
}

fn foreign(world: &World) -> String {
    format!(
        "a Cleaner {} exists that the operator has not made, so it makes none; delete that one, and this object gets its own",
        cleaner_name(world)
    )
}

/// Says something once, and waits.
fn told(world: &World, text: &str) -> Plan<Action> {
    tell(world, text).unwrap_or_else(|| Plan::wait(Then::Change))
}

fn tell(world: &World, text: &str) -> Option<Plan<Action>> {
    (world.told.as_deref() != Some(text)).then(|| {
        let notice = Notice::warning(event::LIFETIME_IGNORED, text);
        Plan::act(Action::Tell(text.to_owned())).with_notices([notice])
    })
}

fn again(refused: &str, now: Timestamp) -> Plan<Action> {
    Plan::wait(Then::Retry {
        reason: "WriteCleaner",
        message: refused.to_owned(),
        until: later(now, REFUSED),
    })
}

/// The name of the object's Cleaner. A later object of the same name has another UID, and so another Cleaner.
pub(super) fn cleaner_name(world: &World) -> String {
    let name = world.object.name.as_deref().unwrap_or_default();
    let text = format!("{}-{name}", world.kind.kind).to_ascii_lowercase();
    // Some names have letters that those of Cleaners may not have.
    let plain = text.chars().map(|it| match it.is_ascii_alphanumeric() {
        true => it,
        false => '-',
    });
    let plain: String = plain.take(NAME_MAX).collect();
    let uid: String = uid(world).chars().take(UID).collect();
    format!("{plain}-{uid}")
}

fn uid(world: &World) -> &str {
    world.object.uid.as_deref().unwrap_or_default()
}

/// The spec of a new Cleaner.
fn new_spec(world: &World, expiry: &Expiry, now: Timestamp) -> CleanerSpec {
    let spec = CleanerSpec {
        ttl: duration::print(left(now, expiry.due)),
        retry: None,
        helm: None,
        targets: Vec::new(),
        conditions: Vec::new(),
        cloud_event_sink: None,
        delivery: Default::default(),
        deletion: CleanerDeletion::default(),
        dry_run: false,
    };
    with_rules(world, expiry, spec)
}

/// What the spec of a Cleaner should be, if it is something else. What is not from the marks stays as somebody may have set it.
fn changed(world: &World, expiry: &Expiry, cleaner: &StoredCleaner) -> Option<CleanerSpec> {
    let stored = cleaner.spec.spec()?;
    let created = cleaner.metadata.creation_timestamp.as_ref()?.0;
    let wanted = left(created, expiry.due);
    let late = duration::parse(&stored.ttl).ok();
    let late = late.and_then(|ttl| ttl.checked_sub(wanted));
    let mut spec = with_rules(world, expiry, stored.clone());
    if late.is_none_or(|late| late > LATE) {
        spec.ttl = duration::print(wanted);
    }
    (spec != *stored).then_some(spec)
}

/// The time until then in whole seconds, as those are what creation times have.
fn left(from: Timestamp, due: Timestamp) -> Duration {
    let exact = Duration::try_from(due.duration_since(from)).unwrap_or_default();
    let seconds = exact.as_secs() + u64::from(exact.subsec_nanos() > 0);
    Duration::from_secs(seconds.min(duration::LONGEST.as_secs()))
}

/// Has a Cleaner delete this one object, while it is the same and has the same marks. So a Cleaner that nobody follows any more, since a
/// flag or a right is gone, deletes nothing that its owner has changed his mind about.
fn with_rules(world: &World, expiry: &Expiry, spec: CleanerSpec) -> CleanerSpec {
    let mut conditions = vec![format!("{VARIABLE}.metadata.uid == {}", quoted(uid(world)))];
    conditions.extend(expiry.marks.iter().map(is_unchanged));
    CleanerSpec {
        targets: vec![CleanerTarget {
            name: VARIABLE.to_owned(),
            include_when_evaluating: true,
            delete: true,
            reference: TargetReference {
                api_version: Some(world.kind.api_version.clone()),
                kind: world.kind.kind.clone(),
                name: world.object.name.clone(),
                ..TargetReference::default()
            },
        }],
        conditions,
        deletion: CleanerDeletion {
            propagation_policy: expiry.propagation,
            ..spec.deletion
        },
        dry_run: world.is_dry_run,
        ..spec
    }
}

fn is_unchanged(mark: &Mark) -> String {
    let all = format!("{VARIABLE}.metadata.{}", mark.field.name());
    let key = quoted(mark.key);
    match &mark.value {
        Some(value) => {
            let value = quoted(value);
            format!("has({all}) && {key} in {all} && {all}[{key}] == {value}")
        }
        None => format!("!has({all}) || !({key} in {all})"),
    }
}

/// A string of CEL, whose escapes are those of JSON and more.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
