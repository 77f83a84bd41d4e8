//! The phase in which a Helm release is uninstalled. Each step is planned from what was read in the same pass, and none waits in it.
//!
//! - [`step`] decides what comes next: pure, by the progress that the status has and by what this pass has read.
//! - [`act`](act::act) does one thing, and [`learn`](step::learn) puts what came of it into the progress and what this pass knows.
//!
//! Whatever is to be done is written into the status first, so a new process goes on where another one ended. The release is known by
//! its last record: the Secret with its highest revision, with its UID. One that is installed later under the same name stays.

mod act;
mod chart;
mod step;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::{CleanerSpec, HelmProgress, HelmStep, duration};
use serde::Serialize;

pub(super) use self::act::{CHARTS, Tools, act};
pub(super) use self::chart::Chart;
pub(super) use self::step::{learn, step};

/// What a step is decided from.
pub(super) struct HelmWorld<'a> {
    /// The namespace of the Cleaner, and of the release.
    pub(super) namespace: &'a str,
    /// The UID of the Cleaner.
    pub(super) cleaner: &'a str,
    /// What the live spec says; none if it does not say that this release is uninstalled.
    pub(super) rules: Option<HelmRules>,
    /// How far it is.
    pub(super) progress: &'a HelmProgress,
    /// What this pass knows.
    pub(super) learned: &'a HelmLearned,
}

/// What a pass knows of the release.
#[derive(Clone, Default)]
pub(super) struct HelmLearned {
    /// Its records, the oldest first.
    pub(super) records: Option<Vec<StoredRecord>>,
    /// What the last of them says.
    pub(super) chart: Option<Arc<Chart>>,
    /// The object of a hook: that at this place of its step.
    pub(super) hook: Option<(HookPlace, SeenHook)>,
    /// The hook whose object was deleted since it has failed.
    pub(super) discarded: Option<HookPlace>,
    /// The step whose hooks have all succeeded, and were deleted if they say so.
    pub(super) tidied: Option<HelmStep>,
    /// Whether the record says that the release is being uninstalled.
    pub(super) is_marked: bool,
    /// Whether objects of the manifest were deleted.
    pub(super) has_swept: bool,
    /// Whether all records are deleted.
    pub(super) is_purged: bool,
    /// Why the last action did not do what it was for.
    pub(super) trouble: Option<String>,
    /// Whether this attempt has failed.
    pub(super) has_failed: bool,
    /// How many actions there were.
    pub(super) actions: usize,
}

/// A hook: its step, and its place among the hooks of this step.
pub(super) type HookPlace = (HelmStep, i32);

/// The Secret of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredRecord {
    /// The revision.
    pub(super) revision: i64,
    /// Its name.
    pub(super) name: String,
    /// Its UID.
    pub(super) uid: String,
}

/// The object of a hook, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SeenHook {
    /// There is none.
    Missing,
    /// Another run of the hook has left it, or another object has its name.
    Other {
        uid: String,
        /// Whether its deletion has begun.
        is_terminating: bool,
    },
    /// It has no result yet.
    Running { uid: String },
    /// It has succeeded.
    Succeeded { uid: String },
    /// It has failed, or cannot even be created.
    Failed {
        /// None if there is no object.
        uid: Option<String>,
        message: String,
    },
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum Step {
    /// Do this, learn what comes of it, and ask again.
    Act(HelmAction),
    /// Write this progress, and ask again.
    Record(Box<HelmProgress>),
    /// Ask again at this time.
    Wait(Timestamp),
    /// This attempt has failed: begin another one later.
    Retry,
    /// Nothing is left to do.
    Done(Ending),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Ending {
    /// The release is uninstalled.
    Uninstalled,
    /// There is no such release.
    Absent,
    /// The spec does not say that it is uninstalled: it stays.
    LeftAlone,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum HelmAction {
    /// List the records.
    List,
    /// Read the last record.
    Read,
    /// Look at the object of the hook whose turn it is.
    LookAtHook,
    /// Create it.
    CreateHook,
    /// Delete the object with this UID.
    DeleteHook(String),
    /// Delete the objects of all hooks of this step that are deleted once they have succeeded.
    TidyHooks,
    /// Write into the record that the release is being uninstalled.
    Mark,
    /// Delete the objects of the manifest, from the one at this place.
    DeleteObjects(usize),
    /// Delete the records.
    Purge,
    /// End this attempt, which has failed.
    GiveUp(Box<HelmProgress>),
}

/// What came of an action.
pub(super) enum HelmOutcome {
    /// The records, the oldest first.
    Listed(Vec<StoredRecord>),
    /// What the last record says.
    Read(Arc<Chart>),
    /// The object of the hook, as it is now.
    Seen(SeenHook),
    /// The deletion of the hook's object has begun, or cannot.
    HookDeleted,
    /// The hooks of this step are deleted, as far as that is allowed: what is left of them.
    Tidied(Option<String>),
    /// The record says that the release is being uninstalled.
    Marked,
    /// What became of objects of the manifest.
    Swept(Sweep),
    /// All records are deleted.
    Purged,
    /// The attempt has ended, with this progress.
    GaveUp(Box<HelmProgress>),
    /// It takes long: another pass goes on.
    Unfinished,
    /// It did not do what it was for.
    Trouble(String),
}

/// What became of some objects of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sweep {
    /// How many objects the manifest has.
    pub(super) total: usize,
    /// How many were dealt with.
    pub(super) done: i32,
    /// How many of them could not be deleted.
    pub(super) failed: i32,
    /// Why the first of these could not be deleted.
    pub(super) first_failure: Option<String>,
    /// Those that stay.
    pub(super) skipped: Vec<String>,
}

/// How long a hook may take if the spec does not say it.
const HOOK_TIMEOUT: Duration = Duration::from_mins(5);

/// What the live spec says about the release. The spec may be edited into something that cannot be used; what can be read of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelmRules {
    /// Whether its hooks do not run.
    pub(crate) disables_hooks: bool,
    /// How long each hook may take.
    pub(crate) hook_timeout: Duration,
}

impl HelmRules {
    /// Returns those of a spec for this release; none if the spec does not say that it is uninstalled. Whoever may write the status
    /// could have written its name there.
    pub(crate) fn of(spec: Option<&CleanerSpec>, release: &str) -> Option<Self> {
        let spec = spec?;
        let helm = spec.helm.as_ref()?;
        let is_deleted = helm.delete && helm.release == release && !spec.dry_run;
        is_deleted.then(|| Self {
            disables_hooks: helm.disable_hooks,
            hook_timeout: duration::parse(&helm.hook_timeout).unwrap_or(HOOK_TIMEOUT),
        })
    }
}

#[cfg(test)]
mod tests;
