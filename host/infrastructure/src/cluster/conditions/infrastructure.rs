//! Whether the machines are configured.

use jiff::Timestamp;
use podloom_api::OperationKind;
use podloom_api::names::infrastructure::annotation::{ABANDON, FORCE, ON_DELETE};
use podloom_api::names::infrastructure::{condition, reason};
use podloom_engine::conditions::ConditionStatus;

use super::Finding;
use crate::cluster::memory::{Trouble, Undone};
use crate::cluster::shortage::Shortage;
use crate::cluster::world::World;
use crate::im::ImState;

/// After so many deletions that were undone, it is said. The first may have been read too early.
const UNDONE_MIN: u32 = 2;

/// Returns whether the machines are configured: the first row that fits counts.
pub(crate) fn infrastructure_ready(world: &World, now: Timestamp) -> Finding {
    let (status, why) = found(world, now);
    Finding::new(condition::INFRASTRUCTURE_READY, status, why)
}

type Why = (&'static str, String);

fn found(world: &World, now: Timestamp) -> (ConditionStatus, Why) {
    let no = |why: Why| (ConditionStatus::False, why);
    if let Some(why) = lost(world) {
        return no(why);
    }
    if let Some(trouble) = &world.known.trouble {
        let is_idle = world.durable.id.is_some() && world.durable.under_way().is_none();
        let status = match is_idle && trouble.reason == reason::UNREACHABLE {
            // It says nothing about the machines.
            true => ConditionStatus::Unknown,
            false => ConditionStatus::False,
        };
        return (status, why(trouble));
    }
    if let Some(refusal) = &world.known.refusal
        && matches!(refusal.reason, reason::READ_ONLY | reason::FAILED)
    {
        return no(why(refusal));
    }
    if world.is_overdue(now) {
        return no((reason::DEADLINE_EXCEEDED, late(world)));
    }
    if let Some(message) = undone(world) {
        return no((reason::DELETION_UNDONE, message));
    }
    if world.is_deleted() {
        let message = "the Infrastructure Manager deletes the infrastructure".to_owned();
        return no((reason::DELETING, message));
    }
    match world.durable.id {
        None => without(world),
        Some(_) => with(world),
    }
}

/// Why the infrastructure cannot be used at all.
fn lost(world: &World) -> Option<Why> {
    if let Some(gone) = &world.known.gone {
        return Some(why(gone));
    }
    if let Some(rival) = &world.rival {
        let message = match &rival.name {
            Some(name) => format!("the infrastructure belongs to Cluster {name}"),
            None => "the infrastructure belongs to a Cluster of another namespace".to_owned(),
        };
        return Some((reason::ADOPTION_FAILED, message));
    }
    let refusal = world.known.refusal.as_ref()?;
    let is_lost = matches!(
        refusal.reason,
        reason::ADOPTION_FAILED | reason::DUPLICATE_INFRASTRUCTURES
    );
    is_lost.then(|| why(refusal))
}

/// There is no infrastructure yet, or not any more.
fn without(world: &World) -> (ConditionStatus, Why) {
    let no = |reason, message: &str| (ConditionStatus::False, (reason, message.to_owned()));
    match &world.durable.operation {
        Some(operation) if operation.last_call_at.is_some() || operation.attempts > 0 => no(
            reason::CREATING,
            "the Infrastructure Manager is asked to create the infrastructure",
        ),
        Some(_) => no(
            reason::VANISHED,
            "the Infrastructure Manager does not know the infrastructure any more; it is created again",
        ),
        None => {
            let message = "nothing was created yet".to_owned();
            (ConditionStatus::Unknown, (reason::UNKNOWN, message))
        }
    }
}

fn with(world: &World) -> (ConditionStatus, Why) {
    let no = |reason| (ConditionStatus::False, (reason, said(world)));
    let under_way = world.durable.under_way().map(|it| it.kind);
    match world.im_state() {
        Some(ImState::Configured) if world.known.shortage == Shortage::Found => {
            let why = (reason::MACHINES_MISSING, fewer(world));
            (ConditionStatus::False, why)
        }
        Some(ImState::Configured) if under_way.is_none() => {
            let message = match world.known.shortage {
                Shortage::Accepted(_) => format!("all machines are configured; {}", fewer(world)),
                _ => "all machines are configured".to_owned(),
            };
            (ConditionStatus::True, (reason::CONFIGURED, message))
        }
        Some(ImState::Unconfigured) => no(reason::UNCONFIGURED),
        Some(ImState::Failed) => no(reason::FAILED),
        Some(ImState::Stopped | ImState::Off) => no(reason::STOPPED),
        Some(ImState::Unknown | ImState::Deleting) => no(reason::UNKNOWN),
        Some(ImState::Configured | ImState::Pending | ImState::Running) | None => {
            no(match under_way {
                Some(OperationKind::Create) => reason::CREATING,
                Some(OperationKind::Update) => reason::UPDATING,
                Some(_) => reason::RECONFIGURING,
                None => reason::UNKNOWN,
            })
        }
    }
}

/// How many machines there are, and how many there should be.
fn fewer(world: &World) -> String {
    let total = world.durable.machines.map_or(0, |machines| machines.total);
    let wanted = world.machines_wanted();
    format!("the template asks for {wanted} machines, and the Infrastructure Manager has {total}")
}

/// What IM says about it.
fn said(world: &World) -> String {
    let state = world.im_state().map(ImState::as_str);
    let log = world.known.log.as_ref().map(|log| log.what.as_str());
    match (state, log.filter(|log| !log.is_empty())) {
        (Some(state), Some(log)) => {
            format!("the Infrastructure Manager says that the infrastructure is {state}: {log}")
        }
        (Some(state), None) => {
            format!("the Infrastructure Manager says that the infrastructure is {state}")
        }
        (None, _) => "the Infrastructure Manager was not asked yet".to_owned(),
    }
}

fn late(world: &World) -> String {
    let operation = world.durable.under_way();
    let kind = operation.map_or(OperationKind::Create, |it| it.kind);
    let seconds = world.timeout(kind).as_secs();
    let what = kind.as_str().to_lowercase();
    let said = undone(world).unwrap_or_else(|| said(world));
    format!("{what} takes longer than {seconds} s; {said}")
}

/// What is said once the infrastructure was there as before after more than one deletion that IM accepted.
fn undone(world: &World) -> Option<String> {
    let times = world.known.undone.times;
    let operation = world.durable.under_way();
    let operation =
        operation.filter(|it| it.kind == OperationKind::Delete && times >= UNDONE_MIN)?;
    let state = world.im_state().map_or("there", ImState::as_str);
    Some(format!(
        "{times}{} since {} were undone: the infrastructure is {state} again. Look in the cloud for what keeps the machines, such as a \
         lock, or a right that the account lacks. The annotation {ON_DELETE} can help: {FORCE} gives up what cannot be deleted, \
         {ABANDON} lets the Cluster go and leaves the machines",
        Undone::TEXT,
        operation.started_at
    ))
}

fn why(trouble: &Trouble) -> Why {
    (trouble.reason, trouble.message.clone())
}
