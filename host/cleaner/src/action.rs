//! What can be done for a Cleaner, and what comes of it.

use std::sync::Arc;

use jiff::Timestamp;
use podloom_api::CleanerStatus;
use podloom_cel::{Evaluation, Variables};
use podloom_engine::write::MetadataPatch;
use serde::Serialize;

use super::delivery::{Begun, Shot};
use super::helm::{HelmAction, HelmOutcome};
use super::memory::{Compiled, Looked};
use super::sight::{Problem, SeenTarget, Sight};
use super::stored::StoredCleaner;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum Action {
    /// Compile the conditions.
    Compile(Programs),
    /// Watch nothing for it any more.
    Unwatch,
    /// Read the targets that conditions see. The time is the one for the conditions.
    Look(Timestamp),
    /// Evaluate the conditions.
    Evaluate(Timestamp),
    /// Search for the time at which they become true by themselves.
    Search(Timestamp),
    /// Read the targets that are only deleted.
    Doom,
    /// Remember that the targets were looked at.
    Remember(Looked),
    /// Write the status.
    WriteStatus(Box<CleanerStatus>),
    /// Set or remove our finalizer.
    SetMetadata(MetadataPatch),
    /// Write the status with which the deletion begins.
    Commit(Box<CleanerStatus>),
    /// Delete the Cleaner itself.
    DeleteCleaner,
    /// Delete the objects of the plan with these places in it.
    DeleteTargets(Vec<usize>),
    /// Look which of these objects of the plan still exist.
    Confirm(Vec<usize>),
    /// Begin to send the CloudEvent.
    Deliver(Shot),
    /// Uninstall the Helm release: one thing of many.
    Helm(HelmAction),
}

/// What becomes of compiled conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Programs {
    /// They are needed now.
    Kept,
    /// They are needed later, and compiled again then: thousands of Cleaners may wait for their time.
    Dropped,
}

/// What came of an action.
pub(super) enum ActionOutcome {
    /// What the compiler says.
    Compiled(Compiled),
    /// Nothing is watched for it.
    Unwatched,
    /// What was seen.
    Seen(Box<Sight>),
    /// What the conditions came to, and what they saw.
    Evaluated(Evaluation, Arc<Variables>),
    /// The targets cannot be used.
    Unusable(Problem),
    /// When the conditions become true, if ever.
    Found(Option<Timestamp>),
    /// The targets that are only deleted.
    Doomed(Vec<SeenTarget>),
    /// It is remembered.
    Remembered(Looked),
    /// The Cleaner as it is now; none if it does not exist any more.
    Cleaner(Option<Box<StoredCleaner>>),
    /// What became of objects of the plan, by their places in it.
    Deleted(Vec<(usize, Fate)>),
    /// Which objects of the plan are gone, by their places in it.
    Confirmed(Vec<usize>),
    /// Whether the CloudEvent is being sent.
    Delivering(Begun),
    /// What came of an action for the Helm release.
    Helm(HelmOutcome),
}

/// What became of an object that was to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The API server has accepted its deletion.
    Accepted,
    /// It does not exist any more, or its kind does not.
    Gone,
    /// Another object has its name.
    Replaced,
    /// It must not be deleted, for this reason.
    Skipped(String),
    /// It cannot be deleted now, for this reason.
    Failed(String),
}
