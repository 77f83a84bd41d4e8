//! Plans writes: finds their targets, checks them, and determines what they change.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::log::{Trace, Undo, most};
use super::{Transaction, Write, past_the_end, too_much_memory};
use crate::access::AccessLimits;
use crate::check::{self, check, check_member, depth, noun, scalar};
use crate::error::{AccessError, EditError, shown};
use crate::grant::tree::{Coverage, Reach, Reached};
use crate::json::{self, Forecast, is_read_alike, json};
use crate::path::{ListSegment, Path, Selector, has_text, push_selector, unescape};
use crate::protected::PendingWrite;
use crate::schema::{ROOT, Schema};
use crate::walk::{Hidden, ListElement, MissingElement, Place, Places, Walk, WalkStep, text_of};

/// A write that has passed every check.
pub(super) struct PlannedWrite {
    /// As the audit lists it, without the old value.
    write: Write,
    trace: Trace,
    /// What happens to the slot: it gets the value, the value is inserted there as a list element, or what it has is removed.
    operation: WriteOperation,
    value: Value,
}

impl PlannedWrite {
    /// The memory that it adds. An old value moves from the pod to the log, and adds nothing.
    pub(super) fn cost(&self) -> usize {
        /// The log entry: the capacity of the log doubles as it grows, and committing splits the entries.
        const ENTRY: usize = 3 * size_of::<(Write, Trace)>();
        /// The slot in the parent: a map entry or a list element.
        const SLOT: usize = 256;
        let Write { path, new, .. } = &self.write;
        let text = new.as_ref().map_or(0, String::len);
        let indices = self.trace.lists() * size_of::<usize>();
        // The last segment may be a new key of the parent.
        let slot = SLOT + indices + 2 * json::string(path.len());
        let value = json::cost(&self.value);
        ENTRY + slot + value + text + most(path, self.trace.lists(), text)
    }

    pub(super) fn apply(mut self, pod: &mut Value, places: &mut Places) -> (Write, Trace) {
        if let Some(slot) = self.trace.slot(pod, &self.write.path) {
            match self.operation {
                WriteOperation::Set => {
                    slot.report_put(&self.value, places);
                    match slot.put(self.value) {
                        None => {}
                        Some(Value::Null) => self.trace.back = Undo::RestoreNull,
                        old => (self.write.old, self.trace.back) = (old, Undo::Restore),
                    }
                }
                WriteOperation::Insert => slot.insert(self.value, places),
                WriteOperation::Remove => {
                    slot.report_take(places);
                    (self.write.old, self.trace.back) = (slot.take(), Undo::Reinsert);
                }
            }
        }
        (self.write, self.trace)
    }
}

impl Transaction {
    pub(super) fn plan_set(
        &self,
        text: &str,
        value: &str,
    ) -> Result<Option<PlannedWrite>, EditError> {
        let mut target = WriteTarget::root(self.access.coverage(), &self.places);
        self.locate(&mut target, text, WriteOperation::Set)?;
        if let Last::Missing(missing) = &target.last
            && let ListSegment::Index(_) = missing.segment
        {
            return Err(self
                .not_found(text, &mut target, "the list is shorter; append with `-`")
                .into());
        }
        let mut new = self.parse_value(text, value, target.depth)?;
        if let Some(selector) = target.selector() {
            fill_key(text, &mut new, selector, target.schema)?;
        }
        let breaks_rule = match (&target.last, target.parent) {
            (Last::Key, Schema::Map(..)) => check_member(text, &new, target.schema)?,
            (Last::Key, _) => check(text, &new, target.schema)?,
            _ => check_member(text, &new, target.schema)?,
        };
        if let Last::Missing(missing) = &target.last {
            let list = missing.list.unwrap_or_default();
            let key = missing.schema.element_key();
            target.pass_new(&new, list, list.len(), key);
        }
        self.permit_set(text, &target, &new)?;
        if is_read_alike(target.here.unwrap_or(&Value::Null), &new) {
            return Ok(None);
        }
        keep_rules(text, &target, &new, breaks_rule)?;
        Ok(Some(put(target, new)))
    }

    pub(super) fn plan_insert(
        &self,
        text: &str,
        value: &str,
    ) -> Result<Option<PlannedWrite>, EditError> {
        let mut target = WriteTarget::root(self.access.coverage(), &self.places);
        self.locate(&mut target, text, WriteOperation::Insert)?;
        let (list, index, schema) = match &target.last {
            Last::Element(element) => (element.list, element.index, element.schema),
            Last::Missing(missing) => match (&missing.segment, missing.list) {
                (ListSegment::Index(index), Some(list)) if *index == list.len() => {
                    (list, *index, missing.schema)
                }
                (ListSegment::End, _) => return Err(past_the_end(text).into()),
                _ => {
                    let reason = "nothing is there to insert before; append with `set` and `-`";
                    return Err(self.not_found(text, &mut target, reason).into());
                }
            },
            Last::Root | Last::Key => {
                let reason = "it names no element of a list to insert before; use `set`";
                return Err(AccessError::invalid_path(text, reason).into());
            }
        };
        let new = self.parse_value(text, value, target.depth)?;
        let breaks_rule = check_member(text, &new, target.schema)?;
        target.pass_new(&new, list, index, schema.element_key());
        target.here = None;
        self.permit_set(text, &target, &new)?;
        keep_rules(text, &target, &new, breaks_rule)?;
        let (depth, text) = (target.depth - 1, Some(json(&new)));
        Ok(Some(target.planned(
            depth,
            WriteOperation::Insert,
            text,
            new,
        )))
    }

    pub(super) fn plan_remove(&self, text: &str) -> Result<Option<PlannedWrite>, EditError> {
        let mut target = WriteTarget::root(self.access.coverage(), &self.places);
        self.locate(&mut target, text, WriteOperation::Remove)?;
        match &target.last {
            Last::Root => {
                return Err(
                    AccessError::invalid_path(text, "the whole pod cannot be removed").into(),
                );
            }
            Last::Missing(missing) => match &missing.segment {
                ListSegment::End => return Err(past_the_end(text).into()),
                segment => target.coverage.follow(self::missing(segment)),
            },
            Last::Key | Last::Element(_) => {}
        }
        let coverage = &target.coverage;
        if !coverage.is_covered() {
            return Err(self.unwritable(text, coverage.is_above()).into());
        }
        let Some(old) = target.here else {
            return Ok(None);
        };
        let kept = coverage.guards().find(|guard| guard.reach == Reach::Key);
        if let Some(guard) = kept
            && !coverage.is_free()
            && coverage.guards().all(|guard| guard.reach == Reach::Key)
        {
            return Err(self.keeps_key(text, *guard).into());
        }
        PendingWrite {
            path: &target.canonical,
            old: Some(old),
            new: None,
            labels: &self.labels,
            places: self.within.as_deref(),
        }
        .check()?;
        let depth = target.depth - 1;
        Ok(Some(target.planned(
            depth,
            WriteOperation::Remove,
            None,
            Value::Null,
        )))
    }

    /// Finds the target of a path, unless it is not granted, or a write would need an element that is missing.
    fn locate<'s>(
        &'s self,
        target: &mut WriteTarget<'s, 's, 's>,
        text: &'s str,
        operation: WriteOperation,
    ) -> Result<(), EditError> {
        let path = self.parse(text)?;
        match target.locate(&self.pod, path, operation)? {
            None if target.coverage.is_covered() || target.coverage.is_above() => {}
            None | Some(Hidden::Path) => return Err(self.unwritable(text, false).into()),
            Some(Hidden::Field(field)) => return Err(self.unreadable(&field).into()),
        }
        // What is below a missing element needs no removal, and cannot be written.
        if target.blocked && operation != WriteOperation::Remove {
            let reason = "an element on the way does not exist";
            return Err(self.not_found(text, target, reason).into());
        }
        Ok(())
    }

    fn parse_value(&self, path: &str, text: &str, path_depth: usize) -> Result<Value, EditError> {
        let limit = self.access.limits.value_depth;
        self.afford(text, path_depth)?;
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            // The parser's own limit on depth must not be reported as invalid JSON.
            Err(_) if path_depth + Forecast::of(text, limit).depth > limit => {
                return Err(too_deep(limit));
            }
            Err(error) => {
                return Err(AccessError::invalid_value(
                    path,
                    format_args!("it is not JSON: {error}"),
                )
                .into());
            }
        };
        // Each level takes at least two bytes, so short texts need no check.
        if path_depth + text.len() / 2 > limit && path_depth + depth(&value) > limit {
            return Err(too_deep(limit));
        }
        Ok(value)
    }

    /// Refuses a text whose value would take more memory than is left, before it is parsed. Most texts are so short that they need
    /// no estimate.
    fn afford(&self, text: &str, path_depth: usize) -> Result<(), EditError> {
        let AccessLimits {
            memory,
            value_depth,
            ..
        } = self.access.limits;
        let left = memory.saturating_sub(self.held);
        if Forecast::highest_cost(text.len()) <= left {
            return Ok(());
        }
        let forecast = Forecast::of(text, value_depth);
        if path_depth + forecast.depth > value_depth {
            return Err(too_deep(value_depth));
        }
        if forecast.cost > left {
            return Err(too_much_memory(memory));
        }
        Ok(())
    }

    fn permit_set(
        &self,
        text: &str,
        target: &WriteTarget<'_, '_, '_>,
        new: &Value,
    ) -> Result<(), AccessError> {
        // Grants are checked first, so that the error reveals nothing about protected values without a grant.
        let coverage = &target.coverage;
        let permitted = coverage.is_free()
            || coverage.guards().any(|guard| match guard.reach {
                Reach::Beside => true,
                Reach::Key => target.here == Some(new),
                Reach::Element => guard.selector.matches(new),
            });
        if !(permitted || coverage.is_above() && is_missing_parent(target, new)) {
            return Err(match coverage.guards().next() {
                Some(guard) => self.keeps_key(text, *guard),
                None => self.unwritable(text, coverage.is_above()),
            });
        }
        PendingWrite {
            path: &target.canonical,
            old: target.here,
            new: Some(new),
            labels: &self.labels,
            places: self.within.as_deref(),
        }
        .check()
    }

    /// The error for a missing target, which does not reveal without a grant that it is missing.
    fn not_found(
        &self,
        text: &str,
        target: &mut WriteTarget<'_, '_, '_>,
        reason: &str,
    ) -> AccessError {
        if let Last::Missing(missing) = &target.last {
            target.coverage.follow(self::missing(&missing.segment));
        }
        if !target.coverage.is_covered() {
            return self.unwritable(text, target.coverage.is_above());
        }
        AccessError::NotFound(format!("nothing is at {}: {reason}", shown(text)))
    }
}

fn too_deep(limit: usize) -> EditError {
    EditError::Limit(format!(
        "a value that would nest the pod more than {limit} levels deep"
    ))
}

/// Refuses a write that breaks a rule for values. Only a permitted one may come here: the error shows what the pod has.
fn keep_rules(
    text: &str,
    target: &WriteTarget<'_, '_, '_>,
    new: &Value,
    breaks_rule: bool,
) -> Result<(), AccessError> {
    if let (Schema::Map(_, Some(rule)), None) = (target.parent, target.here) {
        let (_, key) = text.rsplit_once('/').unwrap_or_default();
        check::check_key(text, &unescape(key), rule)?;
    }
    if breaks_rule {
        check::check_rules(&mut text.to_owned(), new, target.here, target.schema)?;
    }
    Ok(())
}

/// Whether a write only creates an empty parent of a granted path.
fn is_missing_parent(target: &WriteTarget<'_, '_, '_>, new: &Value) -> bool {
    let is_empty = match new {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    is_empty && target.here.is_none() && matches!(target.last, Last::Key)
}

/// Plans the write of a value. The target and its parents may be missing.
fn put(mut target: WriteTarget<'_, '_, '_>, new: Value) -> PlannedWrite {
    // Not the plugin's own text, which may have a key twice: parsers differ on which one counts.
    let text = json(&new);
    let is_new_element = matches!(target.last, Last::Missing(_));
    let (depth, operation, value) = match target.absent.take() {
        Some((depth, keys)) => {
            let innermost = if is_new_element {
                Value::Array(vec![new])
            } else {
                new
            };
            let value = keys.into_iter().rev().fold(innermost, |value, key| {
                Value::Object(Map::from_iter([(key.into_owned(), value)]))
            });
            (depth, WriteOperation::Set, value)
        }
        None if is_new_element => (target.depth - 1, WriteOperation::Insert, new),
        None => (target.depth.saturating_sub(1), WriteOperation::Set, new),
    };
    target.planned(depth, operation, Some(text), value)
}

/// Sets the field of a value that the selector compares through which it is written.
fn fill_key(
    path: &str,
    value: &mut Value,
    selector: &Selector<'_>,
    schema: Schema,
) -> Result<(), AccessError> {
    let (key, text) = (&*selector.key, &*selector.value);
    let Value::Object(fields) = value else {
        let reason = format_args!(
            "an element that is named by its {key} must be an object, found {}",
            noun(value)
        );
        return Err(AccessError::invalid_value(path, reason));
    };
    match fields.get(key) {
        None | Some(Value::Null) => {}
        Some(own) if has_text(own, text) => return Ok(()),
        Some(_) => {
            let reason = format_args!(
                "its field {key} differs from {text:?} in the path; omit the field, or make both equal"
            );
            return Err(AccessError::invalid_value(path, reason));
        }
    }
    match scalar(text, schema.field(key)).filter(|own| has_text(own, text)) {
        Some(own) => {
            fields.insert(key.to_owned(), own);
            Ok(())
        }
        None => {
            let reason = format_args!(
                "the path has {text:?} for its field {key}, expected {}",
                schema.field(key).noun()
            );
            Err(AccessError::invalid_value(path, reason))
        }
    }
}

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOperation {
    Set,
    Insert,
    Remove,
}

/// The target of a write, which is found before its value is parsed.
#[derive(Debug)]
struct WriteTarget<'p, 'v, 'g> {
    /// The canonical path, without the last segment if that is [`Last::Missing`] or an insertion.
    canonical: String,
    /// The list elements in the canonical path.
    trace: Trace,
    /// How many segments the path has.
    depth: usize,
    /// The present value.
    here: Option<&'v Value>,
    /// The schema of the value.
    schema: Schema,
    /// The schema of what the value is in.
    parent: Schema,
    /// The grants that cover the canonical path.
    coverage: Coverage<'g>,
    last: Last<'p, 'v>,
    /// If a parent is missing: the number of segments of the deepest path that exists, and the keys below the topmost missing parent.
    absent: Option<(usize, Vec<Cow<'p, str>>)>,
    /// Whether the path goes through a missing element.
    blocked: bool,
    places: &'v Places,
}

/// What the last segment reached.
#[derive(Debug)]
enum Last<'p, 'v> {
    Root,
    Key,
    Element(ListElement<'p, 'v>),
    Missing(MissingElement<'p, 'v>),
}

impl<'p, 'v, 'g> WriteTarget<'p, 'v, 'g> {
    /// The root of the pod, where every path begins.
    fn root(coverage: Coverage<'g>, places: &'v Places) -> Self {
        Self {
            canonical: String::new(),
            trace: Trace::default(),
            depth: 0,
            here: None,
            schema: ROOT,
            parent: Schema::Anything,
            coverage,
            last: Last::Root,
            absent: None,
            blocked: false,
            places,
        }
    }

    /// Follows a path from the root to the target. Stops where no grant covers it, without reading the rest of the pod.
    /// Works in place, since a target is expensive to move.
    fn locate(
        &mut self,
        pod: &'v Value,
        path: Path<'p>,
        operation: WriteOperation,
    ) -> Result<Option<Hidden>, AccessError> {
        let mut walk = Walk::new(pod, path, self.places);
        self.canonical.reserve(path.text().len() + 16);
        loop {
            if self.coverage.is_lost() {
                return Ok(Some(Hidden::Path));
            }
            self.parent = walk.schema;
            let Some(step) = walk.step(&self.coverage)? else {
                break;
            };
            self.depth += 1;
            match (step, walk.is_done()) {
                (WalkStep::Key { raw, key }, is_last) => {
                    self.pass_key(raw, key, walk.here.is_none() && !is_last);
                }
                (WalkStep::Element(element), true) if operation == WriteOperation::Insert => {
                    self.last = Last::Element(element);
                }
                (WalkStep::Element(element), is_last) => {
                    self.blocked |= element.value.is_null() && !is_last;
                    self.pass_element(element);
                }
                (WalkStep::Missing(missing), is_last) => {
                    self.blocked |= !is_last;
                    self.last = Last::Missing(missing);
                }
                (WalkStep::Hidden(hidden), _) => return Ok(Some(hidden)),
            }
            if walk.is_done() {
                break;
            }
            self.enter_missing();
        }
        self.here = walk.here;
        self.schema = walk.schema;
        Ok(None)
    }

    fn pass_key(&mut self, raw: &str, key: Cow<'p, str>, is_absent_parent: bool) {
        self.canonical.push('/');
        self.canonical.push_str(raw);
        self.coverage.follow(Reached::Key(&key));
        match &mut self.absent {
            Some((_, keys)) => keys.push(key),
            None if is_absent_parent => self.absent = Some((self.depth - 1, Vec::new())),
            None => {}
        }
        self.last = Last::Key;
    }

    fn pass_element(&mut self, element: ListElement<'p, 'v>) {
        self.canonical.push('/');
        match (&element.selector, element.schema.element_key()) {
            // The selector already has the merge key.
            (Some(selector), Some(key)) if selector.key == key => {
                self.canonical.push_str(element.raw)
            }
            _ => self.push_element(&element),
        }
        self.trace.enter(self.depth - 1, element.index);
        self.coverage.follow(Reached::Element(element.value));
        self.last = Last::Element(element);
    }

    /// Continues below a missing element, to find out whether the rest of the path is granted.
    fn enter_missing(&mut self) {
        if let Last::Missing(missing) = &self.last {
            self.canonical.push('/');
            self.canonical.push_str(missing.raw);
            self.coverage.follow(self::missing(&missing.segment));
        }
    }

    /// The write of the slot below a parent of so many segments.
    fn planned(
        self,
        depth: usize,
        operation: WriteOperation,
        new: Option<String>,
        value: Value,
    ) -> PlannedWrite {
        PlannedWrite {
            write: Write {
                path: self.canonical,
                old: None,
                new,
            },
            trace: self.trace.below(depth),
            operation,
            value,
        }
    }

    /// The selector at the end of the path.
    fn selector(&self) -> Option<&Selector<'p>> {
        match &self.last {
            Last::Element(element) => element.selector.as_ref(),
            Last::Missing(missing) => match &missing.segment {
                ListSegment::Selector(selector) => Some(selector),
                ListSegment::Index(_) | ListSegment::End => None,
            },
            Last::Root | Last::Key => None,
        }
    }

    /// Takes the last step to a new element.
    fn pass_new(
        &mut self,
        element: &Value,
        list: &[Value],
        index: usize,
        key: Option<&'static str>,
    ) {
        self.coverage.follow(Reached::New(element, list));
        self.canonical.push('/');
        let places = self.places;
        self.push_segment(element, index, key, |key, text| {
            places.find(list, key, text) == Place::Nowhere
        });
        self.trace.enter(self.depth - 1, index);
    }

    fn push_element(&mut self, element: &ListElement<'p, 'v>) {
        let (index, key) = (element.index, element.schema.element_key());
        let places = self.places;
        self.push_segment(element.value, index, key, |key, text| {
            places.find(element.list, key, text) == Place::One(index)
        });
    }

    /// Appends the canonical segment of an element: its key if that is unique, else its index.
    fn push_segment(
        &mut self,
        element: &Value,
        index: usize,
        key: Option<&'static str>,
        is_unique: impl FnOnce(&'static str, &str) -> bool,
    ) {
        /// Bounds the length of paths in the audit: a plugin could write longer keys.
        const LONGEST: usize = 256;
        let path = &mut self.canonical;
        if let Some(key) = key
            && let Some(text) = text_of(element, key)
            && text.len() <= LONGEST
            && is_unique(key, &text)
        {
            return push_selector(path, key, &text);
        }
        // Writing to a string cannot fail.
        let _ = write!(path, "{index}");
    }
}

/// What a segment without a matching element has reached.
fn missing<'s>(segment: &'s ListSegment<'_>) -> Reached<'s> {
    match segment {
        ListSegment::Selector(selector) => Reached::Missing(selector),
        ListSegment::Index(_) | ListSegment::End => Reached::MissingPosition,
    }
}
