//! What is to be done with a pod: found out first, done at the end, so that a refused pod is never touched.

use podloom_plugin_sdk::{Pod, Rejection, note};

use crate::config::{Config, Mode, Profile};
use crate::view::SecurityContext;

/// A change of one field.
struct Edit {
    path: String,
    /// JSON text; none removes the field.
    value: Option<String>,
    /// Whether the text is an object to which fields are still added: its last brace is missing.
    open: bool,
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
            open: false,
        });
    }

    pub(crate) fn remove(&mut self, path: String) {
        self.edits.push(Edit {
            path,
            value: None,
            open: false,
        });
    }

    /// Fills in an absent field of a security context. Fields of one that is absent itself are written together.
    pub(crate) fn fill(&mut self, context: &SecurityContext, field: &str, value: &str) {
        if context.present {
            return self.set(at(&context.path, field), value);
        }
        let open = self
            .edits
            .iter_mut()
            .find(|edit| edit.open && edit.path == context.path);
        if let Some(text) = open.and_then(|edit| edit.value.as_mut()) {
            for part in [",\"", field, "\":", value] {
                text.push_str(part);
            }
        } else {
            let text = ["{\"", field, "\":", value].concat();
            let path = context.path.clone();
            self.edits.push(Edit {
                path,
                value: Some(text),
                open: true,
            });
        }
    }

    /// Records what violates the profile: where, and what to do about it.
    pub(crate) fn violation(&mut self, path: &str, remedy: &str) {
        self.violations.push([path, ": ", remedy].concat());
    }

    /// Does what the mode asks for.
    pub(crate) fn carry_out(self, config: &Config, pod: &Pod) -> Result<(), Rejection> {
        if config.mode == Mode::Enforce && !self.violations.is_empty() {
            return Err(Rejection::Denied(denial(config, &self.violations)));
        }
        for violation in &self.violations {
            note(violation);
        }
        for edit in self.edits {
            match edit.value {
                _ if config.mode == Mode::Warn => note(&["would write ", &edit.path].concat()),
                Some(mut value) => {
                    if edit.open {
                        value.push('}');
                    }
                    pod.set_json(&edit.path, &value)?;
                }
                None => {
                    pod.remove(&edit.path)?;
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
    let mut denial = ["the pod does not meet the Pod Security Standard ", profile].concat();
    for (index, violation) in violations.iter().enumerate() {
        denial.push_str(if index == 0 { ": " } else { "; " });
        denial.push_str(violation);
    }
    denial
}

/// The path of a field.
pub(crate) fn at(base: &str, field: &str) -> String {
    [base, "/", field].concat()
}
