//! One plugin's run on a pod: reads, writes, and the way back.

mod locate;
mod log;
mod patch;
mod plan;
mod read;
mod refuse;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use serde_json::Value;

use crate::access::Access;
use crate::check::size;
use crate::error::{AccessError, EditError, LimitExceeded};
use crate::path::Path;
use log::LogEntry;
pub use log::Trace;
pub use patch::Patch;
use plan::PlannedWrite;
use read::Reads;
pub use view::Fields;

/// One plugin's run on a pod, which it owns meanwhile.
///
/// Everything written can be taken back: [`rollback`](Self::rollback) gives the pod as it was.
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
    access: Arc<Access>,
    /// Labels that this pod is selected by.
    labels: Arc<[String]>,
    log: Vec<LogEntry>,
    /// Calls that write.
    calls: usize,
    /// Bytes in the paths and values of those calls.
    written: usize,
    /// Bytes written since the pod was last measured.
    unmeasured: usize,
    /// Bytes of memory that what was written takes.
    held: usize,
    refused: usize,
    reads: Reads,
}

/// One change to the pod, as the audit tells it.
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
    /// Where, independent of how the plugin put it: elements of lists as `[key=value]` by the field that tells them apart,
    /// or by their index where that field is absent or not unique. Elements are named as they were before the write.
    pub path: String,
    /// What was there; none if nothing was.
    pub old: Option<Value>,
    /// What is there now, as JSON text; none if nothing is.
    pub new: Option<String>,
}

impl Transaction {
    /// Begins a run. `labels` are the keys of labels that this pod is selected by, which stay as they are.
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
            access,
            labels,
            log: Vec::new(),
            calls: 0,
            written: 0,
            unmeasured: 0,
            held: 0,
            refused: 0,
            reads: Reads::default(),
        }
    }

    /// Counts what earlier runs on this pod hold, as [`held`](Self::held) told, against this run's limit on memory.
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

    /// How many bytes of memory, nearly, all that was written takes: what is in the pod, and what the log keeps.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Writes the JSON text at a path. A value that is there already is not written again.
    ///
    /// Missing parents are made where they are objects or lists, never elements of lists.
    /// A `[key=value]` in the last segment fills that field of the value in, and appends the value if it names no element.
    ///
    /// # Errors
    ///
    /// The path is invalid, not granted or leads through a missing element, the value does not fit there, or a limit is exceeded.
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
        let plan = self.plan_set(path, &value);
        // What is kept is the text as it is in the pod.
        drop(value);
        self.carry_out(plan).map(drop)
    }

    /// Inserts the JSON text before the list element that the path names; at the end if the index is the list's length.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set), but neither the list nor an element that a selector names may be missing.
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
        let plan = self.plan_insert(path, &value);
        // What is kept is the text as it is in the pod.
        drop(value);
        self.carry_out(plan).map(drop)
    }

    /// Removes what is at a path; false if nothing was. Parents stay, even empty ones.
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
        let plan = self.plan_remove(path);
        self.carry_out(plan)
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

    /// The pod as it is now, and what was written, in order.
    #[must_use]
    pub fn commit(self) -> (Value, Vec<Write>) {
        let (pod, writes, _) = self.commit_traced();
        (pod, writes)
    }

    /// As [`commit`](Self::commit), with the trace of each write, by which a [`Patch`] tells it.
    #[must_use]
    pub fn commit_traced(self) -> (Value, Vec<Write>, Vec<Trace>) {
        let entries = self.log.into_iter().map(|entry| (entry.write, entry.trace));
        let (writes, traces) = entries.unzip();
        (self.pod, writes, traces)
    }

    /// The pod as it was.
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

    /// Does what was planned, and says whether anything was.
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
        self.log.push(plan.apply(&mut self.pod));
        let limit = self.access.limits.pod_bytes;
        // Measuring costs as much as the pod is large, so it is not done for every small write.
        if self.unmeasured > limit / 16 {
            self.unmeasured = 0;
            if size(&self.pod) > limit {
                return Err(LimitExceeded::PodBytes(limit).into());
            }
        }
        Ok(true)
    }
}

fn past_the_end(path: &str) -> AccessError {
    AccessError::invalid_path(
        path,
        "`-` is past the end of the list, where only `set` has something to do",
    )
}
