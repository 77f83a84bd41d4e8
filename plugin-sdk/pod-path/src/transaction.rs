//! One plugin's run on a pod: reads, writes, commit and rollback.

mod log;
mod plan;
mod usage;
mod view;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use plan::{PlannedWrite, WriteOperation};
use serde_json::Value;

use crate::access::{Access, AccessLimits};
use crate::check::size;
use crate::error::{AccessError, EditError, shown};
use crate::grant::tree::{Coverage, KeyGuard, Reached};
use crate::json::json_as_read;
use crate::path::{ListSegment, Path, Selector, advice, segments, unescape};
use crate::protected::never_written_at;
use crate::schema::{ROOT, Schema, Shape};
use crate::walk::{Hidden, Places, Walk, WalkStep};
pub use log::{Patch, Trace};
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
    /// Where it may write, of what is granted; none if that is everywhere.
    within: Option<Arc<[String]>>,
    log: Vec<(Write, Trace)>,
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
            within: None,
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

    /// Lets the run write only at or below these canonical paths, of what is granted: what a request to change the pod may change. A
    /// `*` stands for any segment.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let pod = json!({ "spec": { "containers": [{ "name": "a", "image": "a:1" }] } });
    /// let places = ["/spec/containers/*/image".to_owned()];
    /// let mut pod = Transaction::begin(pod, Access::unrestricted().into(), [].into()).within(places.into());
    /// pod.set("/spec/containers/[name=a]/image", "\"a:2\"".to_owned())?;
    /// assert!(pod.set("/spec/containers/0/command", "[]".to_owned()).is_err());
    /// assert!(pod.set("/spec/containers", "[]".to_owned()).is_err());
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    #[must_use]
    pub fn within(mut self, places: Arc<[String]>) -> Self {
        self.within = Some(places);
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
        self.write(WriteOperation::Set, path, Some(value)).map(drop)
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
        self.write(WriteOperation::Insert, path, Some(value))
            .map(drop)
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
        self.write(WriteOperation::Remove, path, None)
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
        let (writes, traces) = self.log.into_iter().unzip();
        (self.pod, writes, traces)
    }

    /// Ends the run; undoes the writes and returns the pod as it was.
    #[must_use]
    pub fn rollback(mut self) -> Value {
        for (write, trace) in self.log.into_iter().rev() {
            trace.undo(write, &mut self.pod);
        }
        self.pod
    }

    fn parse<'p>(&self, text: &'p str) -> Result<Path<'p>, EditError> {
        self.check_length(text)?;
        Ok(Path::parse(text)?)
    }

    fn check_length(&self, path: &str) -> Result<(), EditError> {
        let limit = self.access.limits.path_bytes;
        if path.len() > limit {
            return Err(EditError::Limit(format!(
                "a path of more than {limit} bytes"
            )));
        }
        Ok(())
    }

    /// Writes; returns whether there was anything to write.
    fn write(
        &mut self,
        operation: WriteOperation,
        path: &str,
        value: Option<String>,
    ) -> Result<bool, EditError> {
        let text = value.as_deref().unwrap_or_default();
        self.count(path.len() + text.len())?;
        let used = self.to_write(operation, path, value.as_deref());
        let plan = match operation {
            WriteOperation::Set => self.plan_set(path, text),
            WriteOperation::Insert => self.plan_insert(path, text),
            WriteOperation::Remove => self.plan_remove(path),
        };
        // The log keeps the text of the value in the pod, not this one.
        drop(value);
        let done = self.carry_out(plan);
        self.note_write(used, &done);
        done
    }

    /// Counts a call that writes.
    fn count(&mut self, bytes: usize) -> Result<(), EditError> {
        let AccessLimits {
            writes,
            written_bytes,
            ..
        } = self.access.limits;
        self.calls += 1;
        self.written = self.written.saturating_add(bytes);
        if self.calls > writes {
            return Err(EditError::Limit(format!(
                "more than {writes} writes in one run"
            )));
        }
        if self.written > written_bytes {
            return Err(EditError::Limit(format!(
                "more than {written_bytes} bytes written in one run"
            )));
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
            return Err(too_much_memory(limit));
        }
        self.held = held;
        self.log.push(plan.apply(&mut self.pod, &mut self.places));
        let limit = self.access.limits.pod_bytes;
        if self.may_be_larger_than(limit) {
            let size = size(&self.pod);
            (self.measured, self.unmeasured) = (Some(size), 0);
            if size > limit {
                return Err(EditError::Limit(format!(
                    "a pod of more than {limit} bytes"
                )));
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

fn too_much_memory(limit: usize) -> EditError {
    EditError::Limit(format!(
        "values that take more than {limit} bytes of memory"
    ))
}

fn past_the_end(path: &str) -> AccessError {
    AccessError::invalid_path(
        path,
        "`-` is the end of the list, where only `set` can append",
    )
}

/// Maximum bytes of memory that a key takes besides its text.
const KEY: usize = 32;

/// Counts the reads of a run. Cells, so that reading needs only a shared reference.
#[derive(Debug, Default)]
struct Reads {
    calls: Cell<usize>,
    bytes: Cell<usize>,
    refused: Cell<usize>,
}

impl Transaction {
    /// Returns the JSON text at a path, without null fields; none if there is no value.
    ///
    /// # Errors
    ///
    /// The path is invalid or not granted, or a limit is exceeded.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let pod = Transaction::begin(json!({ "spec": { "volumes": [{ "name": "a" }] } }), Access::unrestricted().into(), [].into());
    /// assert_eq!(pod.get("/spec/volumes/[name=a]")?.as_deref(), Some(r#"{"name":"a"}"#));
    /// assert_eq!(pod.get("/spec/nodeName")?, None);
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    pub fn get(&self, path: &str) -> Result<Option<String>, EditError> {
        let answer = self.read(
            || Ok(self.find(path)?.map(json_as_read)),
            |text| text.as_ref().map_or(0, String::len),
        );
        self.note_read(&answer, path);
        answer
    }

    /// Returns the keys of the object at a path, or `0`, `1`, ... of the list; empty if there is no value. For a list, a grant below
    /// `*` is enough.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); also if there is a scalar at the path.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let pod = Transaction::begin(json!({ "spec": { "volumes": [{ "name": "a" }] } }), Access::unrestricted().into(), [].into());
    /// assert_eq!(pod.keys("/spec")?, ["volumes"]);
    /// assert_eq!(pod.keys("/spec/volumes")?, ["0"]);
    /// assert!(pod.keys("/spec/containers")?.is_empty());
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    pub fn keys(&self, path: &str) -> Result<Vec<String>, EditError> {
        let keys = || match self.find_keys(path)? {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Object(fields)) => {
                let present = fields.iter().filter(|(_, value)| !value.is_null());
                Ok(present.map(|(key, _)| key.clone()).collect())
            }
            Some(Value::Array(list)) => {
                Ok((0..list.len()).map(|index| index.to_string()).collect())
            }
            Some(scalar) => {
                let reason = format_args!(
                    "it leads to {}, which has no keys; use `get`",
                    crate::check::noun(scalar)
                );
                Err(AccessError::invalid_path(path, reason).into())
            }
        };
        let answer = self.read(keys, |keys| keys.iter().map(|key| key.len() + KEY).sum());
        self.note_keys(&answer, path);
        answer
    }

    /// How many calls were reads, including refused ones.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let pod = Transaction::begin(json!({}), Access::unrestricted().into(), [].into());
    /// pod.get("/spec/nodeName")?;
    /// pod.keys("/spec")?;
    /// assert_eq!((pod.reads(), pod.refused_reads()), (2, 0));
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    #[must_use]
    pub fn reads(&self) -> usize {
        self.reads.calls.get()
    }

    /// How many reads were forbidden.
    #[must_use]
    pub fn refused_reads(&self) -> usize {
        self.reads.refused.get()
    }

    /// Counts a read and its result.
    fn read<T>(
        &self,
        answer: impl FnOnce() -> Result<T, EditError>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T, EditError> {
        let (limits, reads) = (self.access.limits, &self.reads);
        reads.calls.set(reads.calls.get() + 1);
        if reads.calls.get() > limits.reads {
            let limit = limits.reads;
            return Err(EditError::Limit(format!(
                "more than {limit} reads in one run"
            )));
        }
        let answer = answer();
        match &answer {
            Ok(answer) => self.count_read(bytes(answer))?,
            Err(EditError::Access(AccessError::Forbidden(_))) => {
                reads.refused.set(reads.refused.get() + 1);
            }
            Err(_) => {}
        }
        answer
    }

    /// Counts the bytes of a read.
    fn count_read(&self, bytes: usize) -> Result<(), EditError> {
        let (limit, read) = (self.access.limits.read_bytes, &self.reads.bytes);
        read.set(read.get().saturating_add(bytes));
        if read.get() > limit {
            return Err(EditError::Limit(format!(
                "more than {limit} bytes read in one run"
            )));
        }
        Ok(())
    }

    fn find(&self, text: &str) -> Result<Option<&Value>, EditError> {
        let (here, coverage) = self.follow(text)?;
        if coverage.is_readable() {
            return Ok(here);
        }
        Err(self.unreadable(text).into())
    }

    /// As [`find`](Self::find), but also finds a list of which only the indices may be known.
    fn find_keys(&self, text: &str) -> Result<Option<&Value>, EditError> {
        let (here, coverage) = self.follow(text)?;
        let is_list = matches!(here, None | Some(Value::Null | Value::Array(_)));
        if coverage.is_readable() || is_list && coverage.shows_positions() {
            return Ok(here);
        }
        Err(self.unreadable(text).into())
    }

    /// The value at a path, and the grants that cover it. Stops where no grant covers the path, without reading the rest of the pod,
    /// so the result does not depend on it.
    fn follow(&self, text: &str) -> Result<(Option<&Value>, Coverage<'_>), EditError> {
        let path = self.parse(text)?;
        let mut coverage = self.access.coverage();
        let mut walk = Walk::new(&self.pod, path, &self.places);
        loop {
            if coverage.is_lost() {
                return Err(self.unreadable(text).into());
            }
            let Some(step) = walk.step(&coverage)? else {
                return Ok((walk.here, coverage));
            };
            let reached = match &step {
                WalkStep::Key { key, .. } => Reached::Key(key),
                WalkStep::Element(element) => Reached::Element(element.value),
                WalkStep::Missing(missing) => match &missing.segment {
                    ListSegment::Selector(selector) => Reached::Missing(selector),
                    ListSegment::Index(_) => Reached::MissingPosition,
                    ListSegment::End => return Err(past_the_end(text).into()),
                },
                WalkStep::Hidden(Hidden::Path) => return Err(self.unreadable(text).into()),
                WalkStep::Hidden(Hidden::Field(field)) => {
                    return Err(self.unreadable(field).into());
                }
            };
            if !coverage.is_readable() {
                coverage.follow(reached);
            }
        }
    }
}

/// Errors for paths that were not granted. They depend only on the path and the grants, never on the pod.
impl Transaction {
    fn unreadable(&self, path: &str) -> AccessError {
        let (reads, writes) = (self.access.reads(), self.access.writes());
        let line = line(path, None);
        AccessError::Forbidden(format!(
            "reading {} is forbidden: the plugin may read {reads} and write {writes}; \
             add the line {line} to `read` in chain.yaml, and `.read(...)` with the path in the plugin's `needs`{}",
            shown(path),
            advice(path)
        ))
    }

    fn unwritable(&self, path: &str, is_above: bool) -> AccessError {
        let (shown, writes) = (shown(path), self.access.writes());
        let keys = segments(path).map(unescape).collect::<Vec<_>>();
        let reason = match never_written_at(keys.iter().map(AsRef::as_ref)) {
            // No grant would help.
            Some(_) if is_above => format!(
                "the plugin may write only parts of it, of {writes}; write these parts one by one"
            ),
            Some(never) => format!(
                "plugins never change {never}, whatever they are granted; leave it as it is"
            ),
            None if is_above => format!(
                "the plugin may write only parts of it, of {writes}; write these parts one by one, \
                 or add the line {} to `allow` in chain.yaml",
                line(path, None)
            ),
            None => format!(
                "the plugin may write {writes}; add the line {} to `allow` in chain.yaml, \
                 and `.write(...)` with the path in the plugin's `needs`",
                line(path, None)
            ),
        };
        let advice = advice(path);
        AccessError::Forbidden(format!("writing {shown} is forbidden: {reason}{advice}"))
    }

    fn keeps_key(&self, path: &str, guard: KeyGuard<'_>) -> AccessError {
        let Selector { key, value } = guard.selector;
        AccessError::Forbidden(format!(
            "writing {} is forbidden: the grant is for [{key}={value}], so the field {key} must not change (the plugin may write {}); \
             to grant that, add the line {} to `allow` in chain.yaml",
            shown(path),
            self.access.writes(),
            line(path, Some(guard.depth))
        ))
    }
}

/// The line of the manifest that would grant a path. Indices cannot be granted and become `*`, and so does the segment at the depth
/// `any`.
fn line(path: &str, any: Option<usize>) -> String {
    let mut schema = ROOT;
    let mut grant = String::with_capacity(path.len());
    for (index, raw) in segments(path).enumerate() {
        let list_segment = ListSegment::parse(raw);
        let is_element = match (schema.shape(), &list_segment) {
            (Shape::List, _) => true,
            (Shape::Unknown, list_segment) => list_segment.is_some() || raw == "*",
            (Shape::Object | Shape::Scalar, _) => false,
        };
        let is_named = matches!(list_segment, Some(ListSegment::Selector(_)));
        let segment = if is_element && (!is_named || any == Some(index + 1)) {
            "*"
        } else {
            raw
        };
        schema = below(schema, raw, is_element);
        grant.push('/');
        grant.push_str(segment);
    }
    // JSON is valid YAML.
    format!("`- {}`", serde_json::Value::String(grant))
}

fn below(schema: Schema, raw: &str, is_element: bool) -> Schema {
    if is_element {
        schema.element()
    } else {
        schema.field(&unescape(raw))
    }
}

#[cfg(test)]
mod tests;
