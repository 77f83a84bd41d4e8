//! Outside the sandbox: the same handle on a pod in memory, for tests.

use std::cell::RefCell;
use std::collections::BTreeMap;

use podloom_pod_path::{AccessError, EditError, LAST_APPLIED, Transaction};

use crate::{Error, Level};

/// A pod in memory, behind the code that the host uses: paths, types and grants are checked as in the operator.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) RefCell<Transaction>);

impl Handle {
    pub(crate) fn get(&self, path: &str) -> Result<Option<String>, Error> {
        Ok(self.0.borrow().get(path)?)
    }

    pub(crate) fn view(&self, path: &str, fields: &[&str]) -> Result<Option<String>, Error> {
        let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
        Ok(self.0.borrow().view(path, &fields)?)
    }

    pub(crate) fn keys(&self, path: &str) -> Result<Vec<String>, Error> {
        Ok(self.0.borrow().keys(path)?)
    }

    pub(crate) fn set(&self, path: &str, value: &str) -> Result<(), Error> {
        Ok(self.0.borrow_mut().set(path, value.to_owned())?)
    }

    pub(crate) fn insert(&self, path: &str, value: &str) -> Result<(), Error> {
        Ok(self.0.borrow_mut().insert(path, value.to_owned())?)
    }

    pub(crate) fn remove(&self, path: &str) -> Result<bool, Error> {
        Ok(self.0.borrow_mut().remove(path)?)
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

/// The request of a test, whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) namespace_labels: BTreeMap<String, String>,
    pub(crate) namespace_annotations: BTreeMap<String, String>,
    pub(crate) dry_run: bool,
}

impl Request {
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
}

/// An annotation that the host shows to plugins.
fn shown(annotations: &BTreeMap<String, String>, key: &str) -> Option<String> {
    let value = annotations.get(key).filter(|_| key != LAST_APPLIED);
    value.cloned()
}

thread_local! {
    /// What the plugin under test said, for [`crate::testing`] to collect: each test runs on a thread of its own.
    static SAID: RefCell<Said> = const { RefCell::new(Said { warnings: Vec::new(), notes: Vec::new(), logs: Vec::new() }) };
}

/// Warnings, notes and log lines of one run.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) logs: Vec<(Level, String)>,
}

pub(crate) fn log(level: Level, message: &str) {
    SAID.with_borrow_mut(|said| said.logs.push((level, message.to_owned())));
}

pub(crate) fn note(message: &str) {
    SAID.with_borrow_mut(|said| said.notes.push(message.to_owned()));
}

pub(crate) fn warn(message: &str) {
    SAID.with_borrow_mut(|said| said.warnings.push(message.to_owned()));
}

/// Returns what was said since the last time, and forgets it.
pub(crate) fn take_said() -> Said {
    SAID.take()
}
