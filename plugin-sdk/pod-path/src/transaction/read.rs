//! Reads, which are counted like writes.

use std::cell::Cell;

use serde_json::Value;

use super::{Transaction, past_the_end};
use crate::error::{AccessError, EditError, LimitExceeded};
use crate::grant::tree::{Coverage, Reached};
use crate::json::json_as_read;
use crate::path::ListSegment;
use crate::walk::{Hidden, Walk, WalkStep};

/// Maximum bytes of memory that a key takes besides its text.
const KEY: usize = 32;

/// Counts the reads of a run. Cells, so that reading needs only a shared reference.
#[derive(Debug, Default)]
pub(super) struct Reads {
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
    pub(super) fn read<T>(
        &self,
        answer: impl FnOnce() -> Result<T, EditError>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T, EditError> {
        let (limits, reads) = (self.access.limits, &self.reads);
        reads.calls.set(reads.calls.get() + 1);
        if reads.calls.get() > limits.reads {
            return Err(LimitExceeded::Reads(limits.reads).into());
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
    pub(super) fn count_read(&self, bytes: usize) -> Result<(), LimitExceeded> {
        let (limit, read) = (self.access.limits.read_bytes, &self.reads.bytes);
        read.set(read.get().saturating_add(bytes));
        if read.get() > limit {
            return Err(LimitExceeded::ReadBytes(limit));
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
    pub(super) fn follow(&self, text: &str) -> Result<(Option<&Value>, Coverage<'_>), EditError> {
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
                WalkStep::Missing { segment, .. } => match segment {
                    ListSegment::Selector(selector) => Reached::Missing(selector),
                    ListSegment::Index(_) => Reached::MissingPosition,
                    ListSegment::End => return Err(past_the_end(text).into()),
                },
                WalkStep::Hidden(Hidden::Position) => return Err(self.unreadable(text).into()),
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
