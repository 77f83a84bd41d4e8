//! What a failed request means.

use jiff::Timestamp;
use podloom_api::names::infrastructure::reason;
use podloom_engine::plan::later;

use super::{BUSY, LIMITED, LIMITED_MAX, change, outputs, state, trouble};
use crate::cluster::action::Ask;
use crate::cluster::backoff;
use crate::cluster::change::Change;
use crate::cluster::memory::{At, Ownership};
use crate::cluster::world::World;
use crate::im::{Failure, FailureKind, Sent};
use crate::resolve::{Backend, OwnerUse};

/// Notes a failure, and when IM may be asked again.
pub(super) fn failed(world: &mut World, ask: &Ask, failure: &Failure, at: Timestamp) {
    record(world, ask, failure);
    match (failure.kind, ask) {
        // It says nothing about IM.
        (FailureKind::Limited, _) => limited(world, at),
        (FailureKind::NotFound, Ask::State(_) | Ask::Name(_)) => state::missing(world, at),
        (FailureKind::NoTemplate, Ask::Name(_)) => state::nameless(world, at),
        (FailureKind::NotFound, Ask::Change(Change::Delete { .. })) => state::deleted(world, at),
        (FailureKind::NotFound, Ask::Adopt(_)) => not_there(world, failure, at),
        (kind, Ask::Log(_)) => {
            // Without its words, it goes on all the same: whatever IM cannot do, what comes next tells.
            let what = String::new();
            world.known.log = Some(At { what, at });
            if kind == FailureKind::NotFound {
                world.known.reading = None;
            }
        }
        (FailureKind::NotFound, Ask::AddOwner(_)) => {
            world.known.owner = Ownership::Tried;
            world.known.reading = None;
        }
        // A state read must confirm it.
        (FailureKind::NotFound, _) => world.known.reading = None,
        (FailureKind::NoTemplate, Ask::Outputs(_)) => world.known.has_no_template = true,
        (FailureKind::NotGranted, _) if may_add_owner(world, ask) => {
            world.known.owner = Ownership::ToAdd;
        }
        (FailureKind::Refused, Ask::Outputs(_)) => outputs::refused(world, &failure.message, at),
        _ => troubled(world, ask, failure, at),
    }
}

/// Too many of our own requests are running: each time it waits longer, so that many Clusters of one IM find a pace.
fn limited(world: &mut World, at: Timestamp) {
    let known = &mut world.known;
    known.limited = known.limited.saturating_add(1);
    let wait = backoff::wait(LIMITED, known.limited, world.uid()).min(LIMITED_MAX);
    world.known.rest = Some(later(at, wait));
}

/// What the failure means for what was recorded before the request.
fn record(world: &mut World, ask: &Ask, failure: &Failure) {
    let Ask::Change(change) = ask else {
        return;
    };
    if failure.kind == FailureKind::Limited {
        return change::not_sent(world, ask);
    }
    if matches!(change, Change::Create | Change::Update) {
        world.known.tried = world.metadata().generation;
    }
    match (change, failure.sent) {
        // What is there and what is not must be looked up.
        (Change::Create, Sent::Unknown) => {
            let prepared = world.learned.prepared.as_ref();
            let target = prepared.and_then(|it| it.0.as_ref());
            world.known.sent_as = target.map(|target| target.owner.clone());
        }
        (Change::Create, _) => change::cleared(world),
        (Change::Update, Sent::Unknown) => {
            world.known.unsure = world.wanted.as_ref().map(|it| it.template.clone());
        }
        (Change::Delete { force }, _) => {
            world.known.is_deleting = false;
            world.known.is_forced = *force;
        }
        _ => {}
    }
    world.known.reading = None;
}

/// Whether the account with the previous password may let the one of now own the infrastructure. It is tried once.
fn may_add_owner(world: &World, ask: &Ask) -> bool {
    let has_previous = world.known.sent_as.is_some() || world.resolved().is_some_and(has_previous);
    let is_about_one = !matches!(
        ask,
        Ask::AddOwner(_) | Ask::Search { .. } | Ask::Left(_) | Ask::Change(Change::Create)
    );
    has_previous
        && is_about_one
        && world.known.owner == Ownership::Assumed
        && world.durable.id.is_some()
}

fn has_previous(backend: &Backend) -> bool {
    matches!(
        backend.im.owner,
        OwnerUse::Basic {
            previous: Some(_),
            ..
        }
    )
}

/// There is nothing to take over.
fn not_there(world: &mut World, failure: &Failure, at: Timestamp) {
    let message = format!(
        "the infrastructure to take over does not exist: {}",
        failure.message
    );
    world.known.refusal = Some(trouble(reason::ADOPTION_FAILED, message));
    world.known.rest = Some(later(at, backoff::longest(world.poll())));
}

fn troubled(world: &mut World, ask: &Ask, failure: &Failure, at: Timestamp) {
    let known = &mut world.known;
    known.failures = known.failures.saturating_add(1);
    known.is_busy = failure.kind == FailureKind::Conflict;
    if let Ask::AddOwner(_) = ask
        && failure.kind != FailureKind::Unreachable
    {
        known.owner = Ownership::Tried;
    }
    let found = trouble(reason_of(failure.kind, ask), failure.message.clone());
    match is_refusal(failure.kind, ask) {
        true => {
            known.refusal = Some(found);
            known.trouble = None;
        }
        false => known.trouble = Some(found),
    }
    let attempts = world.durable.under_way().map_or(0, |it| it.attempts);
    let poll = world.poll();
    let wait = match (failure.kind, ask) {
        (FailureKind::Conflict, _) => poll.min(BUSY),
        (_, Ask::Change(_)) => backoff::wait(poll, world.known.failures.max(attempts), world.uid()),
        _ => backoff::wait(poll, world.known.failures, world.uid()),
    };
    world.known.rest = Some(later(at, wait));
    // Whether a change worked is worth knowing before the next one.
    if let (Ask::Change(change), Some(_)) = (ask, &world.durable.id)
        && failure.sent != Sent::No
        && !matches!(change, Change::Delete { .. })
    {
        world.known.quiet = Some(later(at, poll.min(super::QUIET)));
    }
}

/// Whether only another request of that kind can show that it is over: what is read meanwhile says nothing about it.
fn is_refusal(kind: FailureKind, ask: &Ask) -> bool {
    let is_answer = matches!(
        kind,
        FailureKind::Refused
            | FailureKind::TemplateRejected
            | FailureKind::ReadOnly
            | FailureKind::NoTemplate
            | FailureKind::Conflict
    );
    is_answer && matches!(ask, Ask::Change(_))
}

fn reason_of(kind: FailureKind, ask: &Ask) -> &'static str {
    match (kind, ask) {
        (FailureKind::CredentialsRejected | FailureKind::NotGranted, _) => {
            reason::CREDENTIALS_REJECTED
        }
        (FailureKind::ReadOnly, _) => reason::READ_ONLY,
        (FailureKind::TemplateRejected, _) => reason::TEMPLATE_REJECTED,
        (FailureKind::Refused, Ask::Change(Change::Update)) => reason::UPDATE_REFUSED,
        (FailureKind::Refused | FailureKind::Conflict, Ask::Change(_)) => reason::FAILED,
        _ => reason::UNREACHABLE,
    }
}
