//! A Cleaner and all that a plan for it may depend on; what can be done for it, and what comes of that.

use std::sync::Arc;

use jiff::Timestamp;
use kube::core::Object;
use podloom_api::names::cleaner::label;
use podloom_api::names::cleaner::{FINALIZER, annotation};
use podloom_api::{CleanerSpec, CleanerStatus, DeletionProgress, HelmProgress};
use podloom_cel::{Evaluation, Variables};
use podloom_engine::readable::without_value;
use podloom_engine::write::MetadataPatch;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::checked::{Checked, joined};
use crate::helm::{HelmAction, HelmLearned, HelmOutcome, HelmRules, HelmWorld};
use crate::memory;
use crate::memory::{Attempt, Compiled, Looked, Recalled};
use crate::read::{Problem, SeenTarget, Sight};
use crate::settings::CleanerSettings;

/// A Cleaner, and what is known around it.
#[derive(Clone)]
pub(super) struct World {
    pub(super) cleaner: StoredCleaner,
    /// Its spec, or why it cannot be used.
    pub(super) checked: Result<Checked, String>,
    /// What the process remembers of it.
    pub(super) recalled: Recalled,
    /// The operator's flags.
    pub(super) settings: Arc<CleanerSettings>,
    /// Whether kinds are watched for it.
    pub(super) is_watching: bool,
    /// By which part of the period its next look may be late.
    pub(super) jitter: f64,
    pub(super) learned: Learned,
}

/// What the actions of this pass came to.
#[derive(Clone, Default)]
pub(super) struct Learned {
    /// What was seen of the targets.
    pub(super) sight: Option<Arc<Sight>>,
    /// Why conditions cannot see the targets, or why not all that is to be deleted can be read.
    pub(super) problem: Option<Problem>,
    /// What conditions see.
    pub(super) variables: Option<Arc<Variables>>,
    /// What the conditions came to.
    pub(super) evaluation: Option<Evaluation>,
    /// When time alone makes them true, if ever.
    pub(super) search: Option<Option<Timestamp>>,
    /// The targets that are only deleted.
    pub(super) doomed: Option<Vec<SeenTarget>>,
    /// How far the deletion is. The status may not say it yet.
    pub(super) progress: Option<DeletionProgress>,
    /// Whether objects were deleted in this pass.
    pub(super) has_deleted: bool,
    /// Whether it was confirmed in this pass which objects still exist.
    pub(super) has_confirmed: bool,
    /// What is known of the Helm release.
    pub(super) helm: HelmLearned,
}

impl World {
    /// Returns the spec, if our types can hold it.
    pub(super) fn spec(&self) -> Option<&CleanerSpec> {
        self.cleaner.spec.spec()
    }

    /// Returns the status.
    pub(super) fn status(&self) -> Option<&CleanerStatus> {
        self.cleaner.status.as_ref()
    }

    /// Returns what is being deleted, as the status says it.
    pub(super) fn deletion(&self) -> Option<&DeletionProgress> {
        self.status()?.deletion.as_ref()
    }

    /// Returns how far the deletion is. The status may not say it yet.
    pub(super) fn progress(&self) -> Option<&DeletionProgress> {
        self.learned.progress.as_ref().or(self.deletion())
    }

    /// Returns the same, to be changed. None if nothing is being deleted.
    pub(super) fn progress_mut(&mut self) -> Option<&mut DeletionProgress> {
        if self.learned.progress.is_none() {
            self.learned.progress = self.deletion().cloned();
        }
        self.learned.progress.as_mut()
    }

    /// Returns whether it is being deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.cleaner.metadata.deletion_timestamp.is_some()
    }

    /// Returns whether it has our finalizer.
    pub(super) fn has_finalizer(&self) -> bool {
        let finalizers = self.cleaner.metadata.finalizers.iter().flatten();
        finalizers.into_iter().any(|it| it == FINALIZER)
    }

    /// Returns whether what is left to do is to be dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        let annotations = self.cleaner.metadata.annotations.as_ref();
        annotations
            .and_then(|it| it.get(annotation::ABANDON))
            .is_some_and(|it| it == "true")
    }

    /// Returns its namespace.
    pub(super) fn namespace(&self) -> &str {
        self.cleaner
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
    }

    /// Returns whether the operator deletes nothing in its namespace.
    pub(super) fn is_excluded(&self) -> bool {
        self.settings.excluded_namespaces.contains(self.namespace())
    }

    /// Returns its UID.
    pub(super) fn uid(&self) -> &str {
        self.cleaner.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns what the next step for its Helm release is decided from.
    pub(super) fn helm<'a>(&'a self, progress: &'a HelmProgress) -> HelmWorld<'a> {
        HelmWorld {
            namespace: self.namespace(),
            cleaner: self.uid(),
            rules: HelmRules::of(self.spec(), &progress.release).filter(|_| !self.is_excluded()),
            progress,
            learned: &self.learned.helm,
        }
    }

    /// Returns what changes when its targets must be looked at again.
    pub(super) fn edition(&self) -> u64 {
        memory::edition(&self.cleaner.metadata)
    }
}

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
    Deliver(Attempt),
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
    /// The attempt to send the CloudEvent that runs now, or is postponed.
    Delivering(Attempt),
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

/// A Cleaner as the API server stores it, also one whose spec our types cannot hold: its status says so.
pub(super) type StoredCleaner = Object<StoredSpec, CleanerStatus>;

/// The spec of a Cleaner, or why our types cannot hold it.
#[derive(Clone, Debug)]
pub(super) struct StoredSpec(pub(super) Result<Box<CleanerSpec>, String>);

impl StoredSpec {
    /// Returns the spec, if our types can hold it.
    pub(super) fn spec(&self) -> Option<&CleanerSpec> {
        self.0.as_deref().ok()
    }
}

/// Returns the spec of a Cleaner, or why it cannot be used.
pub(super) fn checked(
    cleaner: &StoredCleaner,
    settings: &CleanerSettings,
) -> Result<Checked, String> {
    let namespace = cleaner.metadata.namespace.as_deref().unwrap_or_default();
    match &cleaner.spec.0 {
        Ok(spec) => {
            let mut checked =
                Checked::of(spec, namespace, settings).map_err(|found| joined(&found))?;
            let labels = cleaner.metadata.labels.as_ref();
            let made_from = labels.and_then(|it| it.get(label::MADE_FROM));
            let is_from_ttl = made_from.is_some_and(|it| it == label::MADE_FROM_TTL);
            checked.is_dry_run |= is_from_ttl && settings.ttl_dry_run;
            Ok(checked)
        }
        Err(error) => Err(format!("the spec cannot be read: {error}")),
    }
}

impl<'de> Deserialize<'de> for StoredSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spec = Value::deserialize(deserializer)?;
        let read = serde_json::from_value(spec).map(Box::new);
        Ok(Self(
            read.map_err(|error| without_value(&error.to_string())),
        ))
    }
}
