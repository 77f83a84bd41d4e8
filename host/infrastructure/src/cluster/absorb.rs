//! What an answer of IM means for a Cluster. Pure: it changes the world, and the next plan writes the status.

mod change;
mod failure;
mod outputs;
mod search;
mod state;

use std::time::Duration;

use jiff::Timestamp;

use super::action::{Ask, Asked, Reply};
use super::backoff;
use super::change::Change;
use super::memory::{At, Ownership, Trouble};
use super::world::World;
use crate::im::{Answer, Failure, FailureKind, Sent};
use crate::resolve::Unresolved;
use podloom_engine::plan::later;

pub(crate) use self::outputs::note;

/// How long to wait after a request that changes something before the state is read, at most.
const QUIET: Duration = Duration::from_secs(5);
/// The first pause after we asked too much at once ourselves; each further one is twice as long.
const LIMITED: Duration = Duration::from_secs(2);
/// The longest of these pauses.
const LIMITED_MAX: Duration = Duration::from_mins(1);
/// How long to wait at most while IM is busy.
const BUSY: Duration = Duration::from_secs(10);

/// Puts what came of a question to IM into the world.
pub(crate) fn absorb(world: &mut World, asked: Asked) {
    let Asked { ask, reply, at } = asked;
    world.learned.is_asked = true;
    world.learned.recorded = None;
    world.known.missing = None;
    let was_heard = world.known.heard_since.is_some();
    heard(world, &reply, at);
    match reply {
        Reply::Missing(unresolved) => missing(world, unresolved, at),
        Reply::TooLate => {
            change::not_sent(world, &ask);
            if let Ask::AddOwner(_) = ask {
                world.known.owner = Ownership::Tried;
            }
            // The API server is slow, or the template must not be sent after all.
            world.known.rest = Some(later(at, LIMITED));
        }
        Reply::Found(found) if matches!(ask, Ask::Left(_)) => state::left(world, &found),
        Reply::Found(found) => search::found(world, found, was_heard, at),
        Reply::Answer(answer) => answered(world, ask, answer, at),
        Reply::Failure(failure) => failure::failed(world, &ask, &failure, at),
    }
    world.keep_unsaved();
}

/// Notes whether IM answers.
fn heard(world: &mut World, reply: &Reply, at: Timestamp) {
    let since = &mut world.known.heard_since;
    match reply {
        Reply::Answer(_) | Reply::Found(_) => *since = since.or(Some(at)),
        Reply::Failure(failure) => match failure.kind {
            FailureKind::Unreachable => *since = None,
            // It was not asked.
            FailureKind::Limited => {}
            _ => *since = since.or(Some(at)),
        },
        Reply::Missing(_) | Reply::TooLate => {}
    }
}

/// Notes that a Secret is missing, before anything is recorded or sent.
pub(crate) fn missing(world: &mut World, unresolved: Unresolved, at: Timestamp) {
    world.known.missing = Some(unresolved);
    // A Secret that appears wakes it; this is for one that is not watched.
    world.known.rest = Some(later(at, backoff::wait(world.poll(), 1, world.uid())));
}

fn answered(world: &mut World, ask: Ask, answer: Answer, at: Timestamp) {
    match (ask, answer) {
        (Ask::Change(Change::Create), Answer::Created(id)) => {
            world.known.named = Some(id.clone());
            world.durable.id = Some(id);
            change::accepted(world, Change::Create, at);
        }
        // Of a creation without an id, nobody knows what it made.
        (Ask::Change(change), Answer::Done) if change != Change::Create => {
            change::accepted(world, change, at);
        }
        (Ask::Name(_), Answer::Template(template)) => {
            succeeded(world);
            state::named(world, &template, at);
        }
        (Ask::State(_), Answer::State(reading)) => {
            succeeded(world);
            state::read(world, reading, at);
        }
        (Ask::Adopt(id), Answer::State(reading)) => {
            succeeded(world);
            search::adopt(world, id, at);
            state::read(world, reading, at);
        }
        (Ask::Outputs(_), Answer::Outputs(outputs)) => {
            succeeded(world);
            outputs::read(world, &outputs, at);
        }
        (Ask::Log(_), Answer::Log(log)) => {
            succeeded(world);
            world.known.log = Some(At { what: log, at });
        }
        (Ask::AddOwner(_), _) => {
            succeeded(world);
            world.known.owner = Ownership::Tried;
        }
        (ask, _) => failure::failed(world, &ask, &unexpected(), at),
    }
}

/// The last request succeeded.
fn succeeded(world: &mut World) {
    world.known.failures = 0;
    world.known.limited = 0;
    world.known.rest = None;
    world.known.trouble = None;
}

/// An answer to another question than ours: the request may have been carried out.
fn unexpected() -> Failure {
    Failure {
        kind: FailureKind::Unreachable,
        message: "the answer is none of an Infrastructure Manager".to_owned(),
        sent: Sent::Unknown,
    }
}

fn trouble(reason: &'static str, message: impl Into<String>) -> Trouble {
    Trouble {
        reason,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests;
