//! What came of a rehearsal, for people and programs.

use jiff::Timestamp;
use podloom_api::names::cleaner::{condition, event, reason};
use podloom_api::{CleanerStatus, ConditionResult, PlannedObject};
use podloom_engine::events::Notice;

use crate::sight::{Problem, SeenTarget};
use crate::world::World;

/// What a Cleaner would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearsal {
    /// The reason of its condition Ready, or `ConditionsMet` if it would delete now.
    pub reason: String,
    /// Why.
    pub message: String,
    /// Whether it would delete now.
    pub is_due: bool,
    /// When it would be looked at again, unless a target changes before.
    pub next: Option<Next>,
    /// The targets that conditions see.
    pub targets: Vec<TargetLine>,
    /// What each condition came to; empty if they could not be evaluated.
    pub conditions: Vec<ConditionResult>,
    /// What would be deleted if all conditions were true now, in this order; or why that is not known.
    pub deleted: Result<Vec<PlannedObject>, String>,
}

/// A target that conditions see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetLine {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The names of its objects.
    pub objects: Vec<String>,
}

/// When a Cleaner would be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The time.
    pub at: Timestamp,
    /// Why then.
    pub cause: Cause,
}

/// Why a Cleaner is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is old enough then.
    Expiry,
    /// Time alone makes all conditions true then.
    Time,
    /// The period of its retry, to which the operator adds up to a tenth.
    Period,
}

/// How a plan ended.
pub(super) enum Stop {
    /// It would publish this, and wait.
    Waits(Box<CleanerStatus>),
    /// It would publish this, and delete.
    Deletes(Box<CleanerStatus>, Vec<Notice>),
}

impl Stop {
    fn status(&self) -> &CleanerStatus {
        match self {
            Self::Waits(status) | Self::Deletes(status, _) => status,
        }
    }

    /// When it would look again.
    fn next(&self) -> Option<Timestamp> {
        self.status()
            .next_scheduled_evaluation
            .as_ref()?
            .parse()
            .ok()
    }

    /// The reason and the message.
    fn why(&self) -> (String, String) {
        if let Self::Deletes(_, notices) = self {
            let met = notices.iter().find(|it| it.reason == event::CONDITIONS_MET);
            let message = met.map(|notice| notice.note.clone());
            return (
                event::CONDITIONS_MET.to_owned(),
                message.unwrap_or_default(),
            );
        }
        let conditions = self.status().conditions.iter().flatten();
        let mut ready = conditions.filter(|it| it.type_ == condition::READY);
        let ready = ready
            .next()
            .map(|it| (it.reason.clone(), it.message.clone()));
        ready.unwrap_or_default()
    }
}

impl Next {
    /// Returns the time at which a Cleaner that waits for its time is old enough.
    pub(super) fn expiry(stop: &Stop) -> Option<Self> {
        let (reason, _) = stop.why();
        let at = stop.next().filter(|_| reason == reason::NOT_EXPIRED)?;
        Some(Self {
            at,
            cause: Cause::Expiry,
        })
    }
}

/// Returns what came of a world in which the plan has stopped.
pub(super) fn rehearsal(
    world: &World,
    stop: &Stop,
    doomed: Result<Vec<PlannedObject>, Problem>,
) -> Rehearsal {
    let (reason, message) = stop.why();
    let learned = &world.learned;
    let seen = learned.sight.as_ref().map(|sight| sight.targets.iter());
    let conditions = crate::status::results(world);
    Rehearsal {
        reason,
        message,
        is_due: matches!(stop, Stop::Deletes(..)),
        next: stop.next().map(|at| Next {
            at,
            cause: match learned.search.flatten() == Some(at) {
                true => Cause::Time,
                false => Cause::Period,
            },
        }),
        targets: seen.into_iter().flatten().map(line).collect(),
        conditions: conditions.unwrap_or_default(),
        deleted: doomed.map_err(|problem| problem.to_string()),
    }
}

fn line(target: &SeenTarget) -> TargetLine {
    TargetLine {
        name: target.name.clone(),
        kind: target.kind.resource.kind.clone(),
        objects: target.names().into_iter().map(str::to_owned).collect(),
    }
}
