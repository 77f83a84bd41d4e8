//! How the template of a Cluster differs from the one that IM has.

use std::sync::Arc;

use podloom_api::OperationKind;
use podloom_engine::shown::at_most;
use serde_json::Value;

use super::durable::Operation;
use super::world::World;
use crate::template::{Comparison, Problem, compare};

/// The longest message about a change, in bytes.
const MESSAGE_MAX: usize = 512;

/// What is to be done about the template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    /// Nothing: IM has it.
    Same,
    /// It must be noted, and nothing is sent.
    Local,
    /// It is to be sent.
    Send(Update),
    /// It must not be sent, for this reason.
    Invalid(String),
    /// IM would ignore a part of the change, which this sentence names.
    Unsupported(String),
}

/// An update to send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Update {
    /// What is sent, without the name.
    pub(crate) sent: Value,
    /// The nodes that it removes.
    pub(crate) retired: Vec<String>,
}

/// Compares the template with the one that IM has. A Cluster without a template has nothing to send.
pub(crate) fn edit(world: &World) -> Edit {
    let Some(wanted) = &world.wanted else {
        return Edit::Same;
    };
    if let Some(problem) = &wanted.problem {
        return Edit::Invalid(problem.clone());
    }
    let wanted = &*wanted.template;
    let Some(applied) = world.durable.applied.as_deref() else {
        return whole(wanted);
    };
    let plain = || compared(world, applied, wanted);
    match &world.known.unsure {
        // What the last process sent may be there although the status does not say so.
        None if is_forgotten(world) => match plain() {
            Edit::Same | Edit::Local => whole(wanted),
            other => other,
        },
        None => plain(),
        // What was sent may be there or not. Compared with both at once, what only the lost request had is removed again.
        Some(unsure) => match compared(world, &both(applied, unsure), wanted) {
            Edit::Send(update) => Edit::Send(update),
            _ => match plain() {
                Edit::Same | Edit::Local => whole(wanted),
                other => other,
            },
        },
    }
}

/// Whether a template was sent of which nobody knows any more what it was, since the process that sent it has ended.
fn is_forgotten(world: &World) -> bool {
    let is_update = |operation: &Operation| match operation.kind {
        OperationKind::Update => true,
        // The first request is recorded with its template.
        OperationKind::Create => operation.attempts > 1,
        _ => false,
    };
    let under_way = world.durable.under_way();
    let is_sent = under_way.is_some_and(|it| it.last_call_at.is_some() && is_update(it));
    is_sent && world.durable.id.is_some() && world.known.tried.is_none()
}

/// To send the whole template: what IM has is not known.
fn whole(wanted: &Value) -> Edit {
    Edit::Send(Update {
        sent: wanted.clone(),
        retired: Vec::new(),
    })
}

fn compared(world: &World, applied: &Value, wanted: &Value) -> Edit {
    match compare(applied, wanted, &world.durable.retired) {
        Comparison::Same => Edit::Same,
        Comparison::LocalOnly => Edit::Local,
        // Nodes that go are written as the status has them, and anybody may have written that.
        Comparison::Update { sent, .. } if world.resolved().is_some() && !world.may_send(&sent) => {
            Edit::Invalid("a node that goes names a file of the Infrastructure Manager; allow it with allowFileReferences of the provider, or keep the node".to_owned())
        }
        Comparison::Update { sent, retired } => Edit::Send(Update { sent, retired }),
        Comparison::Unsupported(problems) => Edit::Unsupported(unsupported(&problems)),
    }
}

fn unsupported(problems: &[Problem]) -> String {
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let message = format!(
        "undo these changes, or create another Cluster: the Infrastructure Manager would ignore them, so nothing was sent: {}",
        problems.join("; ")
    );
    at_most(MESSAGE_MAX, message)
}

/// The template with all that either has.
fn both(applied: &Value, unsure: &Arc<Value>) -> Value {
    let mut both = applied.clone();
    json_patch::merge(&mut both, unsure);
    both
}

#[cfg(test)]
mod tests;
