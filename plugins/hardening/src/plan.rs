//! What is to be done with a pod: found out first, done at the end, so that a refused pod is never touched.

use podloom_plugin_sdk::{Pod, Rejection, note};

use crate::config::{Config, Mode, Profile};

/// A change of one field.
pub(crate) struct Edit {
    path: String,
    /// JSON text; none removes the field.
    value: Option<String>,
}

/// The changes to make, and what stands in the way of the profile.
#[derive(Default)]
pub(crate) struct Plan {
    edits: Vec<Edit>,
    violations: Vec<String>,
}

impl Plan {
    pub(crate) fn set(&mut self, path: String, value: impl Into<String>) {
        self.edits.push(Edit {
            path,
            value: Some(value.into()),
        });
    }

    pub(crate) fn remove(&mut self, path: String) {
        self.edits.push(Edit { path, value: None });
    }

    /// Records what violates the profile: where, and what to do about it.
    pub(crate) fn violation(&mut self, path: &str, remedy: &str) {
        self.violations.push([path, ": ", remedy].concat());
    }

    /// Does what the mode asks for.
    pub(crate) fn carry_out(self, config: &Config, pod: &Pod) -> Result<(), Rejection> {
        if config.mode == Mode::Enforce && !self.violations.is_empty() {
            return Err(Rejection::Denied(self.denial(config)));
        }
        for violation in &self.violations {
            note(violation);
        }
        for edit in &self.edits {
            match &edit.value {
                _ if config.mode == Mode::Warn => note(&["would write ", &edit.path].concat()),
                Some(value) => pod.set_json(&edit.path, value)?,
                None => {
                    pod.remove(&edit.path)?;
                }
            }
        }
        Ok(())
    }

    fn denial(&self, config: &Config) -> String {
        let profile = match config.profile {
            Profile::Baseline => "baseline",
            Profile::Restricted => "restricted",
        };
        let mut denial = ["the pod does not meet the Pod Security Standard ", profile].concat();
        for (index, violation) in self.violations.iter().enumerate() {
            denial.push_str(if index == 0 { ": " } else { "; " });
            denial.push_str(violation);
        }
        denial
    }
}

/// The path of a field.
pub(crate) fn at(base: &str, field: &str) -> String {
    [base, "/", field].concat()
}
