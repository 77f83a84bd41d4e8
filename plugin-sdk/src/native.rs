//! Outside the sandbox: the same handle on a pod in memory, for tests.

use std::cell::RefCell;
use std::collections::BTreeMap;

use podloom_pod_path::{AccessError, EditError, LAST_APPLIED, Transaction};

use crate::operation::Operation;
use crate::{Error, Level};

/// For whom the pod is mutated; by default a `Pod` in the namespace `default`.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The submitted object's kind.
    pub kind: String,
    /// The submitted object's name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The submitted object's labels.
    pub labels: BTreeMap<String, String>,
    /// The submitted object's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The namespace's labels.
    pub namespace_labels: BTreeMap<String, String>,
    /// The namespace's annotations.
    pub namespace_annotations: BTreeMap<String, String>,
    /// Whether the result will be thrown away.
    pub dry_run: bool,
    /// Keys of the labels that the workload's selector matches: no plugin may change them.
    pub selector: Vec<String>,
    /// What is done to the pod.
    pub operation: Operation,
    /// The paths of what that changes in a pod that exists.
    pub changes: Vec<String>,
}

impl Default for Submitted {
    fn default() -> Self {
        Self {
            kind: "Pod".to_owned(),
            name: String::new(),
            namespace: "default".to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            namespace_labels: BTreeMap::new(),
            namespace_annotations: BTreeMap::new(),
            dry_run: false,
            selector: Vec::new(),
            operation: Operation::Create,
            changes: Vec::new(),
        }
    }
}

/// A pod in memory, behind the code that the host uses: paths, types and grants are checked as in the operator.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) RefCell<Transaction>);

impl Handle {
    pub(crate) fn get(&self, path: &str) -> Result<Option<String>, EditError> {
        self.0.borrow().get(path)
    }

    pub(crate) fn view(&self, path: &str, fields: &[&str]) -> Result<Option<String>, EditError> {
        self.0.borrow().view(path, fields)
    }

    pub(crate) fn keys(&self, path: &str) -> Result<Vec<String>, EditError> {
        self.0.borrow().keys(path)
    }

    pub(crate) fn set(&self, path: &str, value: &str) -> Result<(), EditError> {
        self.0.borrow_mut().set(path, value.to_owned())
    }

    pub(crate) fn insert(&self, path: &str, value: &str) -> Result<(), EditError> {
        self.0.borrow_mut().insert(path, value.to_owned())
    }

    pub(crate) fn remove(&self, path: &str) -> Result<bool, EditError> {
        self.0.borrow_mut().remove(path)
    }
}

impl From<EditError> for Error {
    #[track_caller]
    #[expect(
        clippy::panic,
        reason = "the host ends a plugin that exceeds a limit; so does its test"
    )]
    fn from(error: EditError) -> Self {
        match error {
            EditError::Access(AccessError::InvalidPath(message)) => Self::InvalidPath(message),
            EditError::Access(AccessError::NotFound(message)) => Self::NotFound(message),
            EditError::Access(AccessError::Forbidden(message)) => Self::Forbidden(message),
            EditError::Access(AccessError::InvalidValue(message)) => Self::InvalidValue(message),
            EditError::Limit(limit) => panic!("the host would end the plugin here: {limit}"),
        }
    }
}

/// What [`Request`](crate::Request) answers with.
impl Submitted {
    pub(crate) fn kind(&self) -> String {
        self.kind.clone()
    }

    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    pub(crate) fn namespace(&self) -> String {
        self.namespace.clone()
    }

    pub(crate) fn label(&self, key: &str) -> Option<String> {
        self.labels.get(key).cloned()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<String> {
        shown(&self.annotations, key)
    }

    pub(crate) fn namespace_label(&self, key: &str) -> Option<String> {
        self.namespace_labels.get(key).cloned()
    }

    pub(crate) fn namespace_annotation(&self, key: &str) -> Option<String> {
        shown(&self.namespace_annotations, key)
    }

    pub(crate) fn dry_run(&self) -> bool {
        self.dry_run
    }

    pub(crate) fn operation(&self) -> Operation {
        self.operation
    }

    pub(crate) fn changes(&self) -> Vec<String> {
        self.changes.clone()
    }
}

/// An annotation that the host shows to plugins.
fn shown(annotations: &BTreeMap<String, String>, key: &str) -> Option<String> {
    let value = annotations.get(key).filter(|_| key != LAST_APPLIED);
    value.cloned()
}

thread_local! {
    /// Warnings, notes and log lines of the plugin under test, for [`crate::testing`] to collect: each test runs on a thread of its own.
    pub(crate) static SAID: RefCell<Said> = const { RefCell::new((Vec::new(), Vec::new(), Vec::new())) };
}

pub(crate) type Said = (Vec<String>, Vec<String>, Vec<(Level, String)>);

pub(crate) fn log(level: Level, message: &str) {
    SAID.with_borrow_mut(|(_, _, logs)| logs.push((level, message.to_owned())));
}

pub(crate) fn note(message: &str) {
    SAID.with_borrow_mut(|(_, notes, _)| notes.push(message.to_owned()));
}

pub(crate) fn warn(message: &str) {
    SAID.with_borrow_mut(|(warnings, _, _)| warnings.push(message.to_owned()));
}
