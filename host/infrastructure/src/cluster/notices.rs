//! The Events of a Cluster. Those about a status are about a change of it: what it said before is not said again.

use podloom_api::names::infrastructure::{condition, event, reason};
use podloom_api::{ClusterState, ClusterStatus};
use podloom_engine::conditions::ConditionStatus;
use podloom_engine::events::Notice;

use super::action::{Action, Ask, Asked, Outcome, Reply};
use super::change::Change;
use super::conditions::Finding;
use super::step::{End, end};
use super::view::View;
use super::world::World;
use crate::im::Answer;

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
