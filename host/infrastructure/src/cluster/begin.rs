//! What the status says once a request is recorded that is about to change something.

use jiff::Timestamp;
use podloom_api::OperationKind;

use super::change::Change;
use super::durable::{Durable, Operation, micros};
use super::world::World;

/// Returns what the status says once a change is recorded.
pub(crate) fn begun(world: &World, change: Change, now: Timestamp) -> Durable {
    let mut durable = world.durable.clone();
    let mut operation = operation(world, change, now);
    operation.last_call_at = Some(micros(now));
    operation.attempts = operation.attempts.saturating_add(1);
    durable.operation = Some(operation);
    if change == Change::Create {
        // The lookup after a lost answer must go where the request went, and must know what it sent.
        durable.running_on = world.resolved().map(|backend| backend.cloud.clone());
        durable.provider_url = world
            .resolved()
            .map(|backend| backend.im.written_url.clone());
        durable.applied = world.wanted.as_ref().map(|it| it.template.clone());
        durable.retired.clear();
        durable.im_state = None;
        durable.machines = None;
    }
    durable
}

/// The operation that a change is part of, without its request.
fn operation(world: &World, change: Change, now: Timestamp) -> Operation {
    let kind = change.kind();
    let new = Operation::new(kind, micros(now));
    let Some(before) = world.durable.under_way() else {
        return new;
    };
    match change {
        Change::Delete { .. } if before.kind == kind => before.clone(),
        Change::Delete { .. } => new,
        // Another template is worth another deadline. What was never configured is still being created.
        Change::Update if is_new_edit(world) => match before.kind {
            OperationKind::Create => Operation {
                kind: before.kind,
                // More than one request: after a restart, that says that it was not the first.
                attempts: before.attempts,
                ..new
            },
            _ => new,
        },
        // A repair is part of what it repairs.
        _ => before.clone(),
    }
}

/// Returns whether the template was never sent as it is now. After a restart that is not known, and while an update is under way, it
/// counts as sent.
pub(crate) fn is_new_edit(world: &World) -> bool {
    match world.known.tried {
        Some(tried) => Some(tried) != world.metadata().generation,
        None => {
            let under_way = world.durable.under_way();
            under_way.is_none_or(|it| it.kind != OperationKind::Update)
        }
    }
}
