//! What the host does for a guest that asks, whichever way the guest is called: the contract's functions on plain Rust types.

use std::sync::Arc;

use podloom_pod_path::{AccessError, EditError, Transaction};

use super::usage::Line;
use super::{Failure, Guest};
use crate::request::{Request, pod_event};

/// The target of log lines that plugins write.
const LOG_TARGET: &str = "podloom::plugin";

/// How much a log line matters, as the contract orders it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// An answer that the guest gets, or a failure that ends its call.
pub(super) type Answer<T> = Result<Result<T, AccessError>, Failure>;

impl Guest {
    pub(super) fn log(&mut self, level: Level, message: &str) {
        let line = self.speech.line(message);
        let (plugin, pod) = (self.setting.name.as_str(), self.pod_fields());
        match line {
            Line::Keep(line) => match level {
                Level::Trace => pod_event!(trace, target: LOG_TARGET, pod, plugin, "{line}"),
                Level::Debug => pod_event!(debug, target: LOG_TARGET, pod, plugin, "{line}"),
                Level::Info => pod_event!(info, target: LOG_TARGET, pod, plugin, "{line}"),
                Level::Warn => pod_event!(warn, target: LOG_TARGET, pod, plugin, "{line}"),
                Level::Error => {
                    pod_event!(error, target: LOG_TARGET, pod, plugin, "{line}");
                    self.speech.last_error = Some(line);
                }
            },
            Line::FirstDropped => {
                pod_event!(warn, target: LOG_TARGET, pod, plugin, "further log lines of this call are dropped");
            }
            Line::Dropped => {}
        }
    }

    pub(super) fn note(&mut self, message: &str) {
        self.speech.note(message);
    }

    pub(super) fn get(&mut self, path: &str) -> Answer<Option<String>> {
        answer(self.pod()?.get(path))
    }

    /// The fields are compared with those of earlier calls where the guest has them, and lifted only if they are new.
    pub(super) fn view<F: AsRef<str>>(
        &mut self,
        path: &str,
        are_fields: impl Fn(&[String]) -> bool,
        lift_fields: impl FnOnce() -> Result<Vec<F>, Failure>,
    ) -> Answer<Option<String>> {
        let setting = Arc::clone(&self.setting);
        let pod = self.pod()?;
        if let Some(fields) = setting.views.find(are_fields) {
            return answer(pod.view_of(path, fields));
        }
        let fields = match answer(pod.fields(path, &lift_fields()?))? {
            Ok(fields) => fields,
            Err(error) => return Ok(Err(error)),
        };
        let view = pod.view_of(path, &fields);
        setting.views.keep(fields, &setting.room);
        answer(view)
    }

    pub(super) fn keys(&mut self, path: &str) -> Answer<Vec<String>> {
        answer(self.pod()?.keys(path))
    }

    pub(super) fn set(&mut self, path: &str, value: String) -> Answer<()> {
        answer(self.pod()?.set(path, value))
    }

    pub(super) fn insert(&mut self, path: &str, value: String) -> Answer<()> {
        answer(self.pod()?.insert(path, value))
    }

    pub(super) fn remove(&mut self, path: &str) -> Answer<bool> {
        answer(self.pod()?.remove(path))
    }

    /// A plugin that prepares itself is asked for no pod yet.
    pub(super) fn request(&self) -> Result<&Arc<Request>, Failure> {
        self.request
            .as_ref()
            .ok_or_else(|| Failure::BrokeContract("a request that it was not given".to_owned()))
    }

    /// Only `mutate` is handed a pod, and no other function can name one.
    fn pod(&mut self) -> Result<&mut Transaction, Failure> {
        self.pod
            .as_mut()
            .ok_or_else(|| Failure::BrokeContract("a pod that it was not given".to_owned()))
    }
}

/// A refusal is the guest's to handle; a limit ends the call.
fn answer<T>(result: Result<T, EditError>) -> Answer<T> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(EditError::Access(error)) => Ok(Err(error)),
        Err(EditError::Limit(limit)) => Err(Failure::OverLimit(format!("it asked for {limit}"))),
    }
}
