//! The host functions of the contract on plain Rust types, shared by core modules and components.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use podloom_mutation::{CallFailure, Operation, PodRequest, Severity};
use podloom_pod_path::{AccessError, EditError, Transaction};

use super::Guest;
use crate::contract::host::Level;
use crate::limits::{LOG_LINE_BYTES, LOG_LINES};
use crate::request::pod_event;
use crate::text::one_line;

/// The target of log lines that plugins write.
const LOG_TARGET: &str = "podloom::plugin";

/// How a line at trace begins that names a place where a plugin's own program denies.
const DENIAL: &str = "deny at ";

/// A result for the guest, or a failure that ends its call.
pub(super) type AccessResult<T> = Result<Result<T, AccessError>, CallFailure>;

impl Guest {
    pub(super) fn log(&mut self, level: Level, message: &str) {
        let output = &mut self.output;
        output.lines = output.lines.saturating_add(1);
        let number = output.lines;
        let (plugin, pod) = (self.settings.name.as_str(), self.pod_fields());
        let may = |about| pod.may_log(self.settings.lines.as_ref(), plugin, about);
        if number > LOG_LINES {
            if number == LOG_LINES + 1 && may("a plugin logs too much") {
                pod_event!(warn, target: LOG_TARGET, pod, plugin, "further log lines of this call are dropped");
            }
            return;
        }
        let line = one_line(message, LOG_LINE_BYTES);
        match level {
            Level::Trace => pod_event!(trace, target: LOG_TARGET, pod, plugin, "{line}"),
            Level::Debug => pod_event!(debug, target: LOG_TARGET, pod, plugin, "{line}"),
            Level::Info if may("info of a plugin") => {
                pod_event!(info, target: LOG_TARGET, pod, plugin, "{line}");
            }
            Level::Warn if may("warning of a plugin") => {
                pod_event!(warn, target: LOG_TARGET, pod, plugin, "{line}");
            }
            Level::Error if may("error of a plugin") => {
                pod_event!(error, target: LOG_TARGET, pod, plugin, "{line}");
            }
            Level::Info | Level::Warn | Level::Error => {}
        }
        match level {
            Level::Trace if line.starts_with(DENIAL) => self.output.denials.push(line),
            Level::Error => self.output.last_error = Some(line),
            _ => {}
        }
    }

    pub(super) fn note(&mut self, message: &str) {
        self.output.note(Severity::Normal, message);
    }

    pub(super) fn warn(&mut self, message: &str) {
        self.output.note(Severity::Warning, message);
    }

    pub(super) fn get(&mut self, path: &str) -> AccessResult<Option<String>> {
        answer(self.pod()?.get(path))
    }

    /// Compares the fields in the guest's memory with the kept ones of earlier calls, and lifts them only if they are new.
    pub(super) fn view<F: AsRef<str>>(
        &mut self,
        path: &str,
        are_fields: impl Fn(&[String]) -> bool,
        lift_fields: impl FnOnce() -> Result<Vec<F>, CallFailure>,
    ) -> AccessResult<Option<String>> {
        let settings = Arc::clone(&self.settings);
        let pod = self.pod()?;
        if let Some(fields) = settings.views.find(are_fields) {
            return answer(pod.view_of(path, fields));
        }
        let fields = match answer(pod.fields(path, &lift_fields()?))? {
            Ok(fields) => fields,
            Err(error) => return Ok(Err(error)),
        };
        let view = pod.view_of(path, &fields);
        settings.views.keep(fields, &settings.budget);
        answer(view)
    }

    pub(super) fn keys(&mut self, path: &str) -> AccessResult<Vec<String>> {
        answer(self.pod()?.keys(path))
    }

    pub(super) fn set(&mut self, path: &str, value: String) -> AccessResult<()> {
        answer(self.pod()?.set(path, value))
    }

    pub(super) fn insert(&mut self, path: &str, value: String) -> AccessResult<()> {
        answer(self.pod()?.insert(path, value))
    }

    pub(super) fn remove(&mut self, path: &str) -> AccessResult<bool> {
        answer(self.pod()?.remove(path))
    }

    /// Fails while the plugin prepares itself, since that is not for any pod.
    pub(super) fn request(&self) -> Result<&Arc<PodRequest>, CallFailure> {
        self.request.as_ref().ok_or_else(|| {
            CallFailure::BrokeContract(
                "there is no request while a plugin prepares itself".to_owned(),
            )
        })
    }

    pub(super) fn pod_operation(&self) -> Result<Operation, CallFailure> {
        let later = self.request()?.later.as_ref();
        Ok(later.map(|later| later.operation).unwrap_or_default())
    }

    pub(super) fn pod_changes(&self) -> Result<&[String], CallFailure> {
        let later = self.request()?.later.as_ref();
        Ok(later.map(|later| &*later.changes).unwrap_or_default())
    }

    /// The request, to look up a label or an annotation of the namespace. Fails if they are not known: no answer is not "none".
    pub(super) fn request_for_namespace(&self) -> Result<&Arc<PodRequest>, CallFailure> {
        let asked = &self.settings.asked_for_namespace;
        asked.store(true, Ordering::Relaxed);
        let request = self.request()?;
        match request.is_namespace_unread {
            true => Err(CallFailure::NamespaceUnread),
            false => Ok(request),
        }
    }

    /// Only `mutate` gets a pod, and no other function can have a handle on one.
    fn pod(&mut self) -> Result<&mut Transaction, CallFailure> {
        self.pod.as_mut().ok_or_else(|| {
            CallFailure::BrokeContract("there is no pod outside of mutate".to_owned())
        })
    }
}

/// A refused access is returned to the guest; an exceeded limit ends the call.
fn answer<T>(result: Result<T, EditError>) -> AccessResult<T> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(EditError::Access(error)) => Ok(Err(error)),
        Err(EditError::Limit(limit)) => {
            Err(CallFailure::OverLimit(format!("it asked for {limit}")))
        }
    }
}
