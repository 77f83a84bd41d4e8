//! One plugin's run on a pod: reads, writes, commit and rollback.

mod fill;
mod locate;
mod log;
mod patch;
mod plan;
mod read;
mod refuse;
#[cfg(test)]
mod tests;
mod usage;
mod view;

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::Value;

use crate::access::Access;
use crate::check::size;
use crate::error::{AccessError, EditError, LimitExceeded};
use crate::path::Path;
use crate::places::Places;
use locate::WriteOperation;
use log::LogEntry;
pub use log::Trace;
pub use patch::Patch;
use plan::PlannedWrite;
use read::Reads;
pub use usage::Usage;
pub use view::Fields;

/// One plugin's run on a pod. It owns the pod until it ends.
///
/// [`rollback`](Self::rollback) undoes all writes and returns the pod as it was.
/// See [the crate's page](crate) for the paths.
///
/// ```
/// use podloom_pod_path::{Access, Transaction};
/// use serde_json::json;
///
/// let before = json!({ "metadata": { "labels": { "app": "web" } } });
/// let mut pod = Transaction::begin(before.clone(), Access::unrestricted().into(), [].into());
/// pod.set("/metadata/labels/team", "\"core\"".to_owned())?;
/// assert!(pod.remove("/metadata/labels/app")?);
/// assert_eq!(pod.keys("/metadata/labels")?, ["team"]);
/// assert_eq!(pod.rollback(), before);
/// # Ok::<(), podloom_pod_path::EditError>(())
/// ```
#[derive(Debug)]
pub struct Transaction {
    pod: Value,
    places: Places,
    access: Arc<Access>,
    /// Keys of the labels that the workload's selector matches.
    labels: Arc<[String]>,
    log: Vec<LogEntry>,
    /// Calls that write.
    calls: usize,
    /// Bytes in the paths and values of those calls.
    written: usize,
    /// Bytes of the pod when it was last measured; none if it was not.
    measured: Option<usize>,
    /// Bytes written since then.
    unmeasured: usize,
    /// Bytes of memory that the writes take.
    held: usize,
    refused: usize,
    reads: Reads,
    /// None unless it is asked for: the serving path pays for one look whether it is there.
    usage: Option<Box<RefCell<Usage>>>,
}

/// One change to the pod, as the audit lists it.
///
/// ```
/// use podloom_pod_path::{Access, Transaction};
/// use serde_json::json;
///
/// let mut pod = Transaction::begin(json!({}), Access::unrestricted().into(), [].into());
/// pod.set("/spec/volumes/-", r#"{"name": "tmp", "emptyDir": {}}"#.to_owned())?;
/// let (_, writes) = pod.commit();
/// assert_eq!(writes[0].path, "/spec/volumes/[name=tmp]");
/// assert_eq!(writes[0].old, None);
/// # Ok::<(), podloom_pod_path::EditError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The canonical path, whatever form the plugin used: an element of a list is named as `[key=value]` by the list's merge key, or by
    /// its index if the key is missing or not unique. Elements are named as they were before the write.
    pub path: String,
    /// The old value; none if there was none.
    pub old: Option<Value>,
    /// The new value as JSON text; none if it was removed.
    pub new: Option<String>,
}

impl Transaction {
    /// Begins a run. `labels` are the keys of the labels that the workload's selector matches, which plugins cannot change.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let app = ["app".to_owned()];
    /// let pod = json!({ "metadata": { "labels": { "app": "web" } } });
    /// let mut pod = Transaction::begin(pod, Access::unrestricted().into(), app.into());
    /// assert!(pod.remove("/metadata/labels/app").is_err());
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    #[must_use]
    pub fn begin(pod: Value, access: Arc<Access>, labels: Arc<[String]>) -> Self {
        Self {
            pod,
            places: Places::default(),
            access,
            labels,
            log: Vec::new(),
            calls: 0,
            written: 0,
            measured: None,
            unmeasured: 0,
            held: 0,
            refused: 0,
            reads: Reads::default(),
            usage: None,
        }
    }

    /// Counts the memory of earlier runs on this pod, as returned by [`held`](Self::held), against this run's limit on memory.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let access = std::sync::Arc::new(Access::unrestricted());
    /// let mut first = Transaction::begin(json!({}), access.clone(), [].into());
    /// first.set("/spec/nodeName", "\"n\"".to_owned())?;
    /// let held = first.held();
    /// let (pod, _log) = first.commit();
    /// let second = Transaction::begin(pod, access, [].into()).holding(held);
    /// assert_eq!(second.held(), held);
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    #[must_use]
    pub fn holding(mut self, held: usize) -> Self {
        self.held = held;
        self
    }

    /// How many bytes of memory the writes take, approximately: in the pod and in the log.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Writes the JSON text to a path, unless the same value is there already; null fields make no difference.
    ///
    /// Creates missing parents that are objects or lists, but never elements of lists.
    /// A `[key=value]` in the last segment sets that field of the value, and appends the value if no element matches.
    ///
    /// # Errors
    ///
    /// The path is invalid, not granted, or goes through a missing element; the value has the wrong type; or a limit is exceeded.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let mut pod = Transaction::begin(json!({}), Access::unrestricted().into(), [].into());
    /// pod.set("/spec/securityContext/runAsUser", "1000".to_owned())?;
    /// assert!(pod.set("/spec/hostNetwork", "\"yes\"".to_owned()).is_err());
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    pub fn set(&mut self, path: &str, value: String) -> Result<(), EditError> {
        self.count(path.len() + value.len())?;
        let used = self.to_write(WriteOperation::Set, path, Some(&value));
        let plan = self.plan_set(path, &value);
        // The log keeps the text of the value in the pod, not this one.
        drop(value);
        let done = self.carry_out(plan).map(drop);
        self.note_write(used, &done);
        done
    }

    /// Inserts the JSON text before the list element at the path, or at the end if the index is the list's length.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set); also if the list, or the element that a selector names, is missing.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let mut pod = Transaction::begin(json!({ "spec": { "containers": [{ "name": "b" }] } }), Access::unrestricted().into(), [].into());
    /// pod.insert("/spec/containers/0", r#"{"name": "a"}"#.to_owned())?;
    /// assert_eq!(pod.get("/spec/containers/1/name")?.as_deref(), Some("\"b\""));
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    pub fn insert(&mut self, path: &str, value: String) -> Result<(), EditError> {
        self.count(path.len() + value.len())?;
        let used = self.to_write(WriteOperation::Insert, path, Some(&value));
        let plan = self.plan_insert(path, &value);
        // The log keeps the text of the value in the pod, not this one.
        drop(value);
        let done = self.carry_out(plan).map(drop);
        self.note_write(used, &done);
        done
    }

    /// Removes the value at a path; false if there is none. Empty parents are kept.
    ///
    /// # Errors
    ///
    /// The path is invalid or not granted, or a limit is exceeded.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let mut pod = Transaction::begin(json!({ "spec": { "nodeName": "n" } }), Access::unrestricted().into(), [].into());
    /// assert!(pod.remove("/spec/nodeName")?);
    /// assert!(!pod.remove("/spec/nodeName")?);
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    pub fn remove(&mut self, path: &str) -> Result<bool, EditError> {
        self.count(path.len())?;
        let used = self.to_write(WriteOperation::Remove, path, None);
        let plan = self.plan_remove(path);
        let done = self.carry_out(plan);
        self.note_write(used, &done);
        done
    }

    /// How many writes were forbidden.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let mut pod = Transaction::begin(json!({}), Access::unrestricted().into(), [].into());
    /// assert!(pod.set("/status", "{}".to_owned()).is_err());
    /// assert_eq!(pod.refused_writes(), 1);
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    #[must_use]
    pub fn refused_writes(&self) -> usize {
        self.refused
    }

    /// Ends the run; returns the pod and the writes in order.
    #[must_use]
    pub fn commit(self) -> (Value, Vec<Write>) {
        let (pod, writes, _) = self.commit_traced();
        (pod, writes)
    }

    /// As [`commit`](Self::commit), with the trace of each write, which a [`Patch`] needs.
    #[must_use]
    pub fn commit_traced(self) -> (Value, Vec<Write>, Vec<Trace>) {
        let entries = self.log.into_iter().map(|entry| (entry.write, entry.trace));
        let (writes, traces) = entries.unzip();
        (self.pod, writes, traces)
    }

    /// Ends the run; undoes the writes and returns the pod as it was.
    #[must_use]
    pub fn rollback(mut self) -> Value {
        for entry in self.log.into_iter().rev() {
            entry.undo(&mut self.pod);
        }
        self.pod
    }

    fn parse<'p>(&self, text: &'p str) -> Result<Path<'p>, EditError> {
        let limit = self.access.limits.path_bytes;
        if text.len() > limit {
            return Err(LimitExceeded::PathBytes(limit).into());
        }
        Ok(Path::parse(text)?)
    }

    /// Counts a call that writes.
    fn count(&mut self, bytes: usize) -> Result<(), LimitExceeded> {
        let limits = self.access.limits;
        self.calls += 1;
        self.written = self.written.saturating_add(bytes);
        if self.calls > limits.writes {
            return Err(LimitExceeded::Writes(limits.writes));
        }
        if self.written > limits.written_bytes {
            return Err(LimitExceeded::WrittenBytes(limits.written_bytes));
        }
        self.unmeasured += bytes;
        Ok(())
    }

    /// Applies a planned write; returns whether there was anything to write.
    fn carry_out(
        &mut self,
        plan: Result<Option<PlannedWrite>, EditError>,
    ) -> Result<bool, EditError> {
        if matches!(plan, Err(EditError::Access(AccessError::Forbidden(_)))) {
            self.refused += 1;
        }
        let Some(plan) = plan? else { return Ok(false) };
        let held = self.held.saturating_add(plan.cost());
        let limit = self.access.limits.memory;
        if held > limit {
            return Err(LimitExceeded::Memory(limit).into());
        }
        self.held = held;
        self.log.push(plan.apply(&mut self.pod, &mut self.places));
        let limit = self.access.limits.pod_bytes;
        if self.may_be_larger_than(limit) {
            let size = size(&self.pod);
            (self.measured, self.unmeasured) = (Some(size), 0);
            if size > limit {
                return Err(LimitExceeded::PodBytes(limit).into());
            }
        }
        Ok(true)
    }

    /// Measuring takes time in proportion to the pod, so it is not done for each small write, nor while a pod is far from the limit: it
    /// grows by about as much as is written.
    fn may_be_larger_than(&self, limit: usize) -> bool {
        let is_close = |size: usize| size + 2 * self.unmeasured > limit;
        self.unmeasured > limit / 16 && self.measured.is_none_or(is_close)
    }
}

fn past_the_end(path: &str) -> AccessError {
    AccessError::invalid_path(
        path,
        "`-` is the end of the list, where only `set` can append",
    )
}
