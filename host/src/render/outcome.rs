//! What became of an object.

use podloom_mutation::PluginRun;
use serde_json::Value;

use crate::error::Diagnostic;
use crate::manifest::Document;
use crate::mutator::ChainPanicked;
use crate::output;

/// An object as it is printed, and what each plugin did to its pods.
pub(crate) struct Rendered {
    pub(crate) value: Value,
    /// The object before the chain, or what is printed instead of it. None if the object is printed as it was given.
    pub(crate) before: Option<Value>,
    /// One for each pod; none if the object holds no pod, or if there is no chain.
    pub(crate) passes: Vec<Pass>,
    /// What the user should know of the printed object.
    pub(crate) note: Option<String>,
}

/// One way of a pod through the chain.
pub(crate) struct Pass {
    /// The field with the pod template, if the object can have several.
    pub(crate) template: Option<String>,
    pub(crate) runs: Vec<PluginRun>,
}

impl Pass {
    /// The way of an object's only pod.
    pub(crate) fn of_pod(runs: Vec<PluginRun>) -> Self {
        Self {
            template: None,
            runs,
        }
    }
}

impl Rendered {
    /// An object that is only passed on.
    pub(crate) fn unchanged(document: &Document) -> Self {
        Self {
            value: document.value.clone(),
            before: None,
            passes: Vec::new(),
            note: None,
        }
    }

    /// Whether another object is printed in place of the document, such as the pod of a Browser.
    pub(crate) fn is_expanded(&self, document: &Document) -> bool {
        self.value.get("kind") != document.value.get("kind")
    }

    /// Whether anything else is printed than what was given.
    pub(crate) fn is_changed(&self, document: &Document) -> bool {
        let before = self.before.as_ref();
        self.is_expanded(document) || before.is_some_and(|before| *before != self.value)
    }

    /// Prints the document itself instead of another object in its place.
    pub(crate) fn keep_source(&mut self, document: &Document) {
        if self.is_expanded(document) {
            let passes = std::mem::take(&mut self.passes);
            *self = Self {
                passes,
                ..Self::unchanged(document)
            };
        }
    }

    /// The object as a YAML document.
    pub(crate) fn yaml(&self, document: &Document) -> anyhow::Result<String> {
        let written = match self.before {
            Some(_) => None,
            None => document.as_written(),
        };
        written.map_or_else(|| output::yaml(&self.value), Ok)
    }
}

/// Why an object could not be rendered.
pub(crate) enum ObjectError {
    /// The object is invalid, or a plugin rejected one of its pods.
    Invalid {
        diagnostics: Vec<Diagnostic>,
        /// What each plugin did, up to the one that rejected the pod; none if no plugin ran.
        passes: Vec<Pass>,
    },
    /// The chain panicked, which is a bug of Podloom.
    Panicked(ChainPanicked),
}

impl From<Diagnostic> for ObjectError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Invalid {
            diagnostics: vec![diagnostic],
            passes: Vec::new(),
        }
    }
}

impl From<ChainPanicked> for ObjectError {
    fn from(panicked: ChainPanicked) -> Self {
        Self::Panicked(panicked)
    }
}
