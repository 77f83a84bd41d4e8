//! What is to be done with a pod: found out first, done at the end, so that a rejected pod is never touched.

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::{Pod, Rejection, note};

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
    violations: Vec<String>,
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
        for edit in &mut self.edits {
            if let Change::Create(fields) = &mut edit.change
                && edit.path == context.path
            {
                return fields.set(field, value);
            }
        }
        let mut fields = Object::default();
        fields.set(field, value);
        self.add(context.path.clone(), Change::Create(fields));
    }

    fn add(&mut self, path: String, change: Change) {
        self.edits.push(Edit { path, change });
    }

    /// Records what violates the profile: where, and what to do about it.
    pub(crate) fn violation(&mut self, path: &str, remedy: &str) {
        self.violations.push(format!("{path}: {remedy}"));
    }

    /// Does what the mode asks for.
    pub(crate) fn carry_out(self, config: &Config, pod: &Pod) -> Result<(), Rejection> {
        if config.mode == Mode::Enforce && !self.violations.is_empty() {
            return Err(Rejection::Denied(denial(config, &self.violations)));
        }
        for violation in &self.violations {
            note(violation);
        }
        for Edit { path, change } in self.edits {
            match change {
                _ if config.mode == Mode::Warn => note(&format!("would write {path}")),
                Change::Set(value) => pod.set_json(&path, &value.to_json())?,
                Change::Create(fields) => pod.set_json(&path, &fields.to_json())?,
                Change::Remove => {
                    pod.remove(&path)?;
                }
            }
        }
        Ok(())
    }
}

fn denial(config: &Config, violations: &[String]) -> String {
    let profile = match config.profile {
        Profile::Baseline => "baseline",
        Profile::Restricted => "restricted",
    };
    let violations = violations.join("; ");
    format!("the pod does not meet the Pod Security Standard {profile}: {violations}")
}
