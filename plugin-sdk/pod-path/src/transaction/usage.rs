//! Records what a plugin reads and writes, if that is asked for, as paths that could be granted.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Transaction;
use super::plan::WriteOperation;
use crate::access::Access;
use crate::error::{AccessError, EditError};
use crate::grant::Segment;
use crate::path::{ListSegment, Path, Selector, has_field, push_selector};
use crate::schema::{Schema, Shape};

use crate::walk::{ListElement, Walk, WalkStep, text_of};

/// How many different paths are kept.
const PATHS: usize = 10_000;
/// Longer keys of elements are not kept.
const KEY: usize = 256;

/// What runs of a plugin accessed, and how often, without what was refused.
///
/// Elements of lists are named as grants name them: by the selector of a grant of the plugin, else by their merge key, and by `*` if
/// neither names them, or if positions in the list were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What was read, whether or not anything was there.
    pub reads: BTreeMap<String, u64>,
    /// What was written, whether or not that changed anything.
    pub writes: BTreeMap<String, u64>,
    /// Whether there were too many different paths to keep all.
    pub is_cut: bool,
}

impl Usage {
    /// Adds the usage of other runs.
    pub fn add(&mut self, other: &Self) {
        self.is_cut |= other.is_cut;
        for (path, count) in &other.reads {
            put(&mut self.reads, &mut self.is_cut, path.clone(), *count);
        }
        for (path, count) in &other.writes {
            put(&mut self.writes, &mut self.is_cut, path.clone(), *count);
        }
    }
}

fn put(paths: &mut BTreeMap<String, u64>, is_cut: &mut bool, path: String, count: u64) {
    if let Some(known) = paths.get_mut(&path) {
        *known += count;
    } else if paths.len() < PATHS {
        paths.insert(path, count);
    } else {
        *is_cut = true;
    }
}

impl Transaction {
    /// Records from now on what is read and written.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let pod = json!({ "spec": { "containers": [{ "name": "a" }] } });
    /// let mut pod = Transaction::begin(pod, Access::unrestricted().into(), [].into()).recording();
    /// pod.set("/spec/containers/0/image", "\"x\"".to_owned())?;
    /// let usage = pod.usage().unwrap();
    /// assert_eq!(usage.writes["/spec/containers/[name=a]/image"], 1);
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.usage = Some(Box::default());
        self
    }

    /// What was recorded; none unless [`recording`](Self::recording) was called.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage.as_ref().map(|usage| usage.borrow().clone())
    }

    /// Records a read that was not refused.
    pub(super) fn note_read<T>(&self, answer: &Result<T, EditError>, path: &str) {
        self.note_view(answer, path, &[String::new()]);
    }

    /// Records the fields of a view that was not refused.
    pub(super) fn note_view<T>(
        &self,
        answer: &Result<T, EditError>,
        path: &str,
        fields: &[String],
    ) {
        let Some(usage) = self.usage.as_ref().filter(|_| !is_refused(answer)) else {
            return;
        };
        let path = Grantable::find(self, path, None, false).text;
        let mut usage = usage.borrow_mut();
        let Usage { reads, is_cut, .. } = &mut *usage;
        for field in fields {
            put(reads, is_cut, format!("{path}{field}"), 1);
        }
    }

    /// Records a read of the positions of a list, or of the keys of an object.
    pub(super) fn note_keys<T>(&self, answer: &Result<T, EditError>, path: &str) {
        if self.usage.is_some() {
            let is_list = Grantable::find(self, path, None, false).is_list;
            let positions = if is_list { "/*" } else { "" };
            self.note_view(answer, path, &[positions.to_owned()]);
        }
    }

    /// The path of a write, before it is carried out; none unless recording.
    pub(super) fn to_write(
        &self,
        operation: WriteOperation,
        path: &str,
        value: Option<&str>,
    ) -> Option<String> {
        self.usage.as_ref()?;
        let value: Option<Value> = value.and_then(|value| serde_json::from_str(value).ok());
        let is_inserted = operation == WriteOperation::Insert;
        Some(Grantable::find(self, path, value.as_ref(), is_inserted).text)
    }

    /// Records a write that was not refused.
    pub(super) fn note_write<T>(&self, path: Option<String>, done: &Result<T, EditError>) {
        let Some((usage, path)) = self.usage.as_ref().zip(path) else {
            return;
        };
        if !is_refused(done) {
            let mut usage = usage.borrow_mut();
            let Usage { writes, is_cut, .. } = &mut *usage;
            put(writes, is_cut, path, 1);
        }
    }
}

const fn is_refused<T>(answer: &Result<T, EditError>) -> bool {
    matches!(answer, Err(EditError::Access(AccessError::Forbidden(_))))
}

/// A path, as far as it can be followed, as grants name it.
struct Grantable<'t> {
    text: String,
    /// The grants that match so far, at the segment that comes next.
    open: Vec<&'t [Segment]>,
    is_list: bool,
}

impl<'t> Grantable<'t> {
    /// `value` is what is written, `is_inserted` whether it is a new element before the one that the path names.
    fn find(
        transaction: &'t Transaction,
        path: &str,
        value: Option<&Value>,
        is_inserted: bool,
    ) -> Self {
        let access = &transaction.access;
        let grants = access.reads().segments().chain(access.writes().segments());
        let mut found = Self {
            text: String::new(),
            open: grants.collect(),
            is_list: false,
        };
        let Ok(path) = Path::parse(path) else {
            return found;
        };
        let everything = Access::unrestricted();
        let coverage = everything.coverage();
        let mut walk = Walk::new(&transaction.pod, path, &transaction.places);
        while let Ok(Some(step)) = walk.step(&coverage) {
            match step {
                WalkStep::Key { raw, key } => {
                    found.pass(raw, |own| matches!(own, Segment::Key(own) if *own == *key));
                }
                WalkStep::Element(element) if is_inserted && walk.is_done() => {
                    found.pass_missing(&ListSegment::End, element.schema, value);
                }
                WalkStep::Element(element) => found.pass_element(&element),
                WalkStep::Missing(missing) => {
                    let value = value.filter(|_| walk.is_done());
                    found.pass_missing(&missing.segment, missing.schema, value);
                }
                WalkStep::Hidden(_) => break,
            }
        }
        found.is_list = match walk.here {
            Some(here) => here.is_array(),
            None => walk.schema.shape() == Shape::List,
        };
        found
    }

    fn pass(&mut self, raw: &str, names: impl Fn(&Segment) -> bool) {
        self.text.push('/');
        self.text.push_str(raw);
        self.open = self
            .open
            .iter()
            .filter_map(|grant| grant.split_first())
            .filter(|(segment, _)| names(segment))
            .map(|(_, rest)| rest)
            .collect();
    }

    fn pass_element(&mut self, element: &ListElement<'_, '_>) {
        let is_own = |own: &Selector<'_>| own.matches(element.value);
        let segment = self.granted(is_own).or_else(|| {
            let key = element.schema.element_key()?;
            let text = text_of(element.value, key)?;
            let same = element.list.iter().filter(|it| has_field(it, key, &text));
            (same.count() == 1).then(|| selector(key, &text))?
        });
        self.pass(segment.as_deref().unwrap_or("*"), |own| match own {
            Segment::Key(_) => false,
            Segment::Any => true,
            Segment::Selector(own) => is_own(own),
        });
    }

    /// A missing element is named by the path, or by the value that is written.
    fn pass_missing(&mut self, segment: &ListSegment<'_>, schema: Schema, value: Option<&Value>) {
        let named = match segment {
            ListSegment::Selector(own) => Some(own),
            ListSegment::Index(_) | ListSegment::End => None,
        };
        let is_it = |own: &Selector<'_>| {
            named.is_some_and(|named| named == own) || value.is_some_and(|it| own.matches(it))
        };
        let own = named.and_then(|own| selector(&own.key, &own.value));
        let written = || {
            let key = schema.element_key()?;
            selector(key, &text_of(value?, key)?)
        };
        let granted = self.granted(is_it);
        let segment = granted.or(own).or_else(written);
        self.pass(segment.as_deref().unwrap_or("*"), |own| match own {
            Segment::Key(_) => false,
            Segment::Any => true,
            Segment::Selector(own) => is_it(own),
        });
    }

    /// The selector of a grant for an element.
    fn granted(&self, is_own: impl Fn(&Selector<'_>) -> bool) -> Option<String> {
        self.open.iter().find_map(|grant| match grant.first()? {
            Segment::Selector(own) if is_own(own) => selector(&own.key, &own.value),
            _ => None,
        })
    }
}

/// A segment; none if it would be too long to be kept.
fn selector(key: &str, value: &str) -> Option<String> {
    if value.len() > KEY {
        return None;
    }
    let mut segment = String::new();
    push_selector(&mut segment, key, value);
    Some(segment)
}
