//! A Cleaner and all that a plan for it may depend on.

use std::sync::Arc;

use jiff::Timestamp;
use podloom_api::names::cleaner::{FINALIZER, annotation};
use podloom_api::{CleanerSpec, CleanerStatus, DeletionProgress, HelmProgress};
use podloom_cel::{Evaluation, Variables};

use super::checked::{Checked, InvalidSpec};
use super::delivery::Attempt;
use super::helm::{HelmLearned, HelmRules, HelmWorld};
use super::memory::{Edition, Recalled};
use super::settings::CleanerSettings;
use super::sight::{Problem, SeenTarget, Sight};
use super::stored::StoredCleaner;

/// A Cleaner, and what is known around it.
pub(super) struct World {
    pub(super) cleaner: StoredCleaner,
    /// Its spec, if it can be used.
    pub(super) checked: Result<Checked, InvalidSpec>,
    /// What the process remembers of it.
    pub(super) recalled: Recalled,
    /// The operator's flags.
    pub(super) settings: Arc<CleanerSettings>,
    /// The last attempt of this process to deliver its CloudEvent, or the one that runs.
    pub(super) attempt: Option<Attempt>,
    /// Whether kinds are watched for it.
    pub(super) is_watching: bool,
    /// By which part of the period its next look may be late.
    pub(super) jitter: f64,
    pub(super) learned: Learned,
}

/// What the actions of this pass came to.
#[derive(Default)]
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
    /// Whether the CloudEvent could not be sent in this pass, since too many others are.
    pub(super) is_delivery_full: bool,
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
    pub(super) fn edition(&self) -> Edition {
        Edition::of(&self.cleaner.metadata)
    }
}
