//! What is to be done with a pod: found out first, done at the end, so that a rejected pod is never touched.

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::{Error, Findings, Pod, Rejection, evictable, note, warn};

use crate::config::{Config, Mode, Profile};
use crate::view::Context;

/// A change of one field.
struct Edit {
    path: String,
    change: Change,
}

enum Change {
    Set(Value),
    /// Writes a security context that is absent, with all of its fields together.
    Create(Object),
    Remove,
}

/// The changes to make, and what stands in the way of the profile.
#[derive(Default)]
pub(crate) struct Plan {
    edits: Vec<Edit>,
    /// What the pod asks for and must not have: the worst.
    violations: Findings,
    /// What it would have to give up or to say, which is no danger by itself.
    shortcomings: Findings,
    /// The volumes that are added.
    pub(crate) empty_dirs: Vec<String>,
}

impl Plan {
    pub(crate) fn set(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        self.add(path.into(), Change::Set(value.into()));
    }

    pub(crate) fn remove(&mut self, path: String) {
        self.add(path, Change::Remove);
    }

    /// Fills in an absent field of a security context. Fields of one that is absent itself are written together.
    pub(crate) fn fill(&mut self, context: &Context, field: &str, value: impl Into<Value>) {
        if context.exists {
            return self.set(context.field(field), value);
        }
        let created = context.created.get().and_then(|at| self.edits.get_mut(at));
        if let Some(Edit {
            change: Change::Create(fields),
            ..
        }) = created
        {
            return fields.set(field, value);
        }
        context.created.set(Some(self.edits.len()));
        let mut fields = Object::default();
        fields.set(field, value);
        self.add(context.path.clone(), Change::Create(fields));
    }

    fn add(&mut self, path: String, change: Change) {
        self.edits.push(Edit { path, change });
    }

    /// Records what the pod asks for and must not have: where, and what to do about it.
    pub(crate) fn violation(&mut self, path: &str, remedy: &str) {
        self.violations.add(path, remedy);
    }

    /// Records what else violates the profile, which comes after that.
    pub(crate) fn shortcoming(&mut self, path: &str, remedy: &str) {
        self.shortcomings.add(path, remedy);
    }

    /// Does what the mode asks for.
    pub(crate) fn carry_out(self, config: &Config, pod: &Pod) -> Result<(), Rejection> {
        let found = [&self.violations, &self.shortcomings];
        if config.mode == Mode::Enforce {
            deny_if_any(config, &found.map(Findings::reasons).concat())?;
        }
        for violation in found.map(Findings::notes).concat() {
            warn(&violation);
        }
        if config.mode == Mode::Warn {
            self.note_edits();
            return Ok(());
        }
        for Edit { path, change } in self.edits {
            match change {
                Change::Set(value) => pod.set_json(&path, &value.to_json())?,
                Change::Create(fields) => pod.set_json(&path, &fields.to_json())?,
                Change::Remove => {
                    pod.remove(&path)?;
                }
            }
        }
        mark_evictable(config, pod, &self.empty_dirs)
    }

    fn note_edits(&self) {
        let mut edits = Findings::default();
        for edit in &self.edits {
            edits.add(&edit.path, "would be written");
        }
        for text in edits.notes() {
            note(&text);
        }
    }
}

/// Names the added volumes for the cluster autoscaler. Chains that do not grant that go on as before, unless it is configured.
fn mark_evictable(config: &Config, pod: &Pod, volumes: &[String]) -> Result<(), Rejection> {
    let read_only = config.read_only_root_filesystem.as_ref();
    let is_off = read_only.is_some_and(|read_only| read_only.safe_to_evict == Some(false));
    if volumes.is_empty() || is_off {
        return Ok(());
    }
    match evictable::mark(pod, volumes, &[]) {
        Err(Error::Forbidden(_)) => {
            note(&format!(
                "the emptyDirs of readOnlyRootFilesystem may keep the cluster autoscaler from removing the node: grant {}, or set safeToEvict: false",
                evictable::PATH
            ));
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Denies the pod for all violations at once.
fn deny_if_any(config: &Config, violations: &[String]) -> Result<(), Rejection> {
    let profile = match config.profile {
        Profile::Baseline => "baseline",
        Profile::Restricted => "restricted",
    };
    Rejection::deny_if_any(violations).map_err(|denial| {
        Rejection::Denied(format!(
            "the pod does not meet the Pod Security Standard {profile}: {denial}"
        ))
    })
}
