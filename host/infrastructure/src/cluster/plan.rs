//! What to do next about a Cluster.

use jiff::Timestamp;
use podloom_api::names::infrastructure::{condition, event, reason};
use podloom_api::{ClusterState, ClusterStatus, names};
use podloom_engine::conditions::ConditionStatus;
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then};

use super::action::{Action, Ask, Asked, Outcome, Reply};
use super::conditions::Finding;
use super::durable::Change;
use super::step::{Case, End, Step, begun, end, step};
use super::view::{View, status};
use super::world::{Edit, Settings, World, edit};
use crate::im::Answer;

/// Decides the next step for a Cluster, from its world alone.
pub(crate) fn plan(world: &World, settings: &Settings, now: Timestamp) -> Plan<Action> {
    // What was recorded in this pass is sent in this pass.
    if let Some(change) = world.learned.recorded {
        return Plan::act(Action::Ask(Ask::Change(change)));
    }
    // Nothing of it is ours.
    if world.is_deleted() && !world.has_finalizer() {
        return Plan::wait(Then::Change);
    }
    let edit = edit(world);
    let case = Case {
        world,
        edit: &edit,
        settings,
        now,
    };
    let step = step(case);
    // Whoever watches sees where it began, and whoever schedules that it is ours.
    let is_new = world.status().is_none_or(|status| status.state.is_none());
    if is_new && step.is_active() {
        return write(case);
    }
    match step {
        Step::Act(action) => return Plan::act(action),
        Step::Change(_) if world.learned.prepared.is_none() => return Plan::act(Action::Prepare),
        Step::Change(change) => return record(case, change),
        Step::Wait(_) | Step::Rest => {}
    }
    let write = write(case);
    match &write.action {
        Some(Action::WriteStatus(wanted)) if Some(&**wanted) == world.status() => {
            Plan::wait(then(world, &step, now))
        }
        _ => write,
    }
}

/// Writes the status.
fn write(case: Case<'_>) -> Plan<Action> {
    let Case {
        world, edit, now, ..
    } = case;
    let view = View::of(world, edit, case.settings, now);
    let wanted = Box::new(status(&view, edit, now));
    Plan::act(Action::WriteStatus(wanted)).with_notices(of_status(&view))
}

/// Writes into the status what is about to be sent.
fn record(case: Case<'_>, change: Change) -> Plan<Action> {
    let now = case.now;
    let mut next = case.world.clone();
    next.durable = begun(case.world, change, now);
    let view = View::of(&next, case.edit, case.settings, now);
    let status = Box::new(status(&view, &Edit::Same, now));
    Plan::act(Action::Record { change, status }).with_notices(of_status(&view))
}

/// When to look again.
fn then(world: &World, step: &Step, now: Timestamp) -> Then {
    if let Some(message) = &world.learned.metadata_rejected {
        return Then::Retry {
            reason: names::reason::METADATA_REFUSED,
            message: message.clone(),
            until: Timestamp::MAX,
        };
    }
    let then = match step {
        Step::Wait(at) => Then::At(*at),
        _ => Then::Change,
    };
    let deadline = world.deadline().filter(|at| now < *at);
    match deadline.filter(|_| !world.cluster.spec.paused) {
        Some(deadline) => then.by(deadline),
        None => then,
    }
}

// The Events of a Cluster. Those about a status are about a change of it: what it said before is not said again.

/// Reasons that say how far something got, and not that anything is wrong.
const PROGRESS: [&str; 7] = [
    reason::PENDING,
    reason::CREATING,
    reason::UPDATING,
    reason::RECONFIGURING,
    reason::DELETING,
    reason::WAITING,
    reason::PROBE_DISABLED,
];

/// Returns the Events that the next status is worth.
pub(crate) fn of_status(view: &View<'_>) -> Vec<Notice> {
    let before = view.world.status();
    let new = view.findings.iter().filter(|it| is_new(before, it));
    let mut notices: Vec<Notice> = new.flat_map(of_finding).collect();
    if has_drifted(view) {
        let found = view
            .findings
            .iter()
            .find(|it| it.type_ == condition::INFRASTRUCTURE_READY);
        let note = found.map_or_else(String::new, |it| it.message.clone());
        notices.insert(0, Notice::warning(event::DRIFT_DETECTED, note));
    }
    notices
}

fn of_finding(finding: &Finding) -> Option<Notice> {
    let is_about_machines = finding.type_ == condition::INFRASTRUCTURE_READY;
    match finding.status {
        ConditionStatus::False if !PROGRESS.contains(&finding.reason) => {
            Some(Notice::warning(finding.reason, finding.message.clone()))
        }
        ConditionStatus::True if is_about_machines => {
            Some(Notice::normal(event::CONFIGURED, finding.message.clone()))
        }
        _ => None,
    }
}

/// Whether the status does not say the same yet. An IM that answers again is no news about the machines.
fn is_new(before: Option<&ClusterStatus>, finding: &Finding) -> bool {
    let conditions = before
        .and_then(|it| it.conditions.as_deref())
        .unwrap_or_default();
    let Some(seen) = conditions.iter().find(|it| it.type_ == finding.type_) else {
        return true;
    };
    match finding.status {
        ConditionStatus::True => seen.status == "False",
        ConditionStatus::False => seen.status != "False" || seen.reason != finding.reason,
        ConditionStatus::Unknown => false,
    }
}

/// Whether machines that were configured are not, and nobody asked for it.
fn has_drifted(view: &View<'_>) -> bool {
    let before = view.world.status().and_then(|it| it.state);
    let was_well = matches!(
        before,
        Some(ClusterState::Online | ClusterState::Connecting)
    );
    let is_bad = |it: &Finding| {
        let bad = [
            reason::MACHINES_MISSING,
            reason::UNCONFIGURED,
            reason::FAILED,
            reason::STOPPED,
            reason::UNKNOWN,
            reason::VANISHED,
        ];
        it.type_ == condition::INFRASTRUCTURE_READY
            && it.status == ConditionStatus::False
            && bad.contains(&it.reason)
    };
    was_well && view.findings.iter().any(is_bad)
}

/// Returns the Events of an action that is done. `planned` are those of its plan.
pub(crate) fn of_outcome(
    world: &World,
    action: &Action,
    outcome: &Outcome,
    planned: Vec<Notice>,
) -> Vec<Notice> {
    match (action, outcome) {
        (_, Outcome::Gone | Outcome::MetadataRejected(_)) => Vec::new(),
        (Action::SetMetadata(_), Outcome::Marked(_)) if world.is_deleted() => {
            of_end(world).into_iter().collect()
        }
        (Action::Ask(_), Outcome::Asked(asked)) => of_answer(world, asked).into_iter().collect(),
        (Action::Store, Outcome::Stored { is_written, .. }) => {
            let note = format!("the kubeconfig is in Secret {}", world.secret_name());
            let stored = is_written.then(|| Notice::normal(event::KUBECONFIG_STORED, note));
            stored.into_iter().collect()
        }
        _ => planned,
    }
}

fn of_end(world: &World) -> Option<Notice> {
    let id = world.durable.id.as_ref();
    let which = id.map_or_else(|| format!("podloom-{}", world.uid()), ToString::to_string);
    let stays = |why: &str| {
        let note = format!("infrastructure {which} is not deleted: {why}");
        Some(Notice::warning(event::ABANDONED, note))
    };
    match end(world)? {
        End::Gone if world.is_registered() => None,
        End::Gone => Some(Notice::normal(
            event::DELETED,
            "nothing is left of the infrastructure",
        )),
        End::Orphaned => {
            let note = format!("infrastructure {which} stays, since spec.deletionPolicy is Orphan");
            Some(Notice::normal(event::ABANDONED, note))
        }
        End::Abandoned => {
            stays("the Cluster's annotation says that the infrastructure is abandoned")
        }
        End::Rival => stays("it belongs to another Cluster"),
    }
}

fn of_answer(world: &World, asked: &Asked) -> Option<Notice> {
    match (&asked.ask, &asked.reply) {
        (Ask::Change(change), Reply::Answer(answer)) => of_change(*change, answer),
        (Ask::Adopt(id), Reply::Answer(_)) => Some(adopted(&id.to_string())),
        (_, Reply::Found(found)) if found.is_complete && !world.is_deleted() => {
            let before = world.known.search.matches.iter();
            let mut all: Vec<_> = before.chain(&found.matches).collect();
            all.sort();
            all.dedup();
            match all.as_slice() {
                [id] => Some(adopted(&id.to_string())),
                _ => None,
            }
        }
        _ => None,
    }
}

fn adopted(id: &str) -> Notice {
    Notice::normal(event::ADOPTED, format!("infrastructure {id} is taken over"))
}

fn of_change(change: Change, answer: &Answer) -> Option<Notice> {
    match (change, answer) {
        (Change::Create, Answer::Created(id)) => {
            let note = format!("the Infrastructure Manager creates infrastructure {id}");
            Some(Notice::normal(event::CREATED, note))
        }
        (Change::Update, _) => {
            let note = "the Infrastructure Manager accepted the changed template";
            Some(Notice::normal(event::TEMPLATE_APPLIED, note))
        }
        (Change::Reconfigure, _) => {
            let note = "the Infrastructure Manager configures the machines again";
            Some(Notice::normal(event::RECONFIGURE_REQUESTED, note))
        }
        _ => None,
    }
}

#[cfg(test)]
pub(in crate::cluster) mod tests;
