//! Plans writes: checks them, and determines what they change.

use serde_json::{Map, Value};

use super::fill::fill_key;
use super::locate::{Last, Outside, WriteOperation, WriteTarget, missing};
use super::log::{LogEntry, ParentSlot, Trace, Undo};
use super::{Transaction, Write, past_the_end, patch};
use crate::access::AccessLimits;
use crate::breach;
use crate::check::{Fit, check, check_member, depth};
use crate::cost::{self, Forecast};
use crate::error::{AccessError, EditError, LimitExceeded, shown};
use crate::grant::tree::Reach;
use crate::json::{is_read_alike, json};
use crate::path::{ListSegment, has_text, unescape};
use crate::places::Places;
use crate::protected::PendingWrite;
use crate::schema::Schema;

/// A write that has passed every check.
pub(super) struct PlannedWrite {
    path: String,
    new: Option<String>,
    slot: ParentSlot,
    change: SlotChange,
}

enum SlotChange {
    /// Put a value into the slot.
    Put(Value),
    /// Insert a value as a list element.
    Insert(Value),
    /// Remove the slot's value.
    Take,
}

impl PlannedWrite {
    /// The memory that it adds. An old value moves from the pod to the log, and adds nothing.
    pub(super) fn cost(&self) -> usize {
        /// The log entry: the capacity of the log doubles as it grows, and committing splits the entries.
        const ENTRY: usize = 3 * size_of::<LogEntry>();
        /// The slot in the parent: a map entry or a list element.
        const SLOT: usize = 256;
        let value = match &self.change {
            SlotChange::Put(value) | SlotChange::Insert(value) => cost::cost(value),
            SlotChange::Take => 0,
        };
        let text = self.new.as_ref().map_or(0, String::len);
        let indices = self.slot.steps.len() * size_of::<usize>();
        // The last segment may be a new key of the parent.
        let slot = SLOT + indices + 2 * cost::string(self.path.len());
        ENTRY + slot + value + text + patch::most(&self.path, self.slot.steps.len(), text)
    }

    pub(super) fn apply(self, pod: &mut Value, places: &mut Places) -> LogEntry {
        let slot = self.slot.find(pod, &self.path);
        let (old, back) = match (self.change, slot) {
            (SlotChange::Put(value), Some(slot)) => {
                slot.report_put(&value, places);
                match slot.put(value) {
                    None => (None, Undo::Take),
                    Some(Value::Null) => (None, Undo::RestoreNull),
                    old => (old, Undo::Restore),
                }
            }
            (SlotChange::Insert(value), Some(slot)) => {
                slot.insert(value, places);
                (None, Undo::Take)
            }
            (SlotChange::Take, Some(slot)) => {
                slot.report_take(places);
                (slot.take(), Undo::Reinsert)
            }
            (_, None) => (None, Undo::Take),
        };
        LogEntry {
            write: Write {
                path: self.path,
                old,
                new: self.new,
            },
            trace: Trace {
                slot: self.slot,
                back,
            },
        }
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
        if matches!(
            target.last,
            Last::Missing {
                segment: ListSegment::Index(_),
                ..
            }
        ) {
            return Err(self
                .not_found(text, &mut target, "the list is shorter; append with `-`")
                .into());
        }
        let mut new = self.parse_value(text, value, target.depth)?;
        if let Some(selector) = target.selector() {
            fill_key(text, &mut new, selector, target.schema)?;
        }
        let fit = match (&target.last, target.parent) {
            (Last::Key, Schema::Map(..)) => check_member(text, &new, target.schema)?,
            (Last::Key, _) => check(text, &new, target.schema)?,
            _ => check_member(text, &new, target.schema)?,
        };
        if let Last::Missing { list, schema, .. } = &target.last {
            let (list, key) = (list.unwrap_or_default(), schema.element_key());
            target.pass_new(&new, list, list.len(), key);
        }
        self.permit_set(text, &target, &new)?;
        if is_read_alike(target.here.unwrap_or(&Value::Null), &new) {
            return Ok(None);
        }
        keep_rules(text, &target, &new, fit)?;
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
            Last::Missing {
                segment: ListSegment::Index(index),
                list: Some(list),
                schema,
                ..
            } if *index == list.len() => (*list, *index, *schema),
            Last::Missing {
                segment: ListSegment::End,
                ..
            } => return Err(past_the_end(text).into()),
            Last::Missing { .. } => {
                let reason = "nothing is there to insert before; append with `set` and `-`";
                return Err(self.not_found(text, &mut target, reason).into());
            }
            Last::Root | Last::Key => {
                let reason = "it names no element of a list to insert before; use `set`";
                return Err(AccessError::invalid_path(text, reason).into());
            }
        };
        let new = self.parse_value(text, value, target.depth)?;
        let fit = check_member(text, &new, target.schema)?;
        target.pass_new(&new, list, index, schema.element_key());
        target.here = None;
        self.permit_set(text, &target, &new)?;
        keep_rules(text, &target, &new, fit)?;
        let slot = ParentSlot {
            depth: target.depth - 1,
            steps: target.steps,
        };
        Ok(Some(PlannedWrite {
            path: target.canonical,
            new: Some(json(&new)),
            slot,
            change: SlotChange::Insert(new),
        }))
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
            Last::Missing {
                segment: ListSegment::End,
                ..
            } => return Err(past_the_end(text).into()),
            Last::Missing { segment, .. } => target.coverage.follow(missing(segment)),
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
        }
        .check()?;
        let slot = ParentSlot {
            depth: target.depth - 1,
            steps: target.steps,
        };
        Ok(Some(PlannedWrite {
            path: target.canonical,
            new: None,
            slot,
            change: SlotChange::Take,
        }))
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
            None | Some(Outside::Path) => return Err(self.unwritable(text, false).into()),
            Some(Outside::Field(field)) => return Err(self.unreadable(&field).into()),
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
                return Err(LimitExceeded::Depth(limit).into());
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
            return Err(LimitExceeded::Depth(limit).into());
        }
        Ok(value)
    }

    /// Refuses a text whose value would take more memory than is left, before it is parsed. Most texts are so short that they need
    /// no estimate.
    fn afford(&self, text: &str, path_depth: usize) -> Result<(), LimitExceeded> {
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
            return Err(LimitExceeded::Depth(value_depth));
        }
        if forecast.cost > left {
            return Err(LimitExceeded::Memory(memory));
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
                Reach::Element => new
                    .get(guard.key)
                    .is_some_and(|key| has_text(key, guard.value)),
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
        if let Last::Missing { segment, .. } = &target.last {
            target.coverage.follow(missing(segment));
        }
        if !target.coverage.is_covered() {
            return self.unwritable(text, target.coverage.is_above());
        }
        AccessError::NotFound(format!("nothing is at {}: {reason}", shown(text)))
    }
}

/// Refuses a write that breaks a rule for values. Only a permitted one may come here: the error shows what the pod has.
fn keep_rules(
    text: &str,
    target: &WriteTarget<'_, '_, '_>,
    new: &Value,
    fit: Fit,
) -> Result<(), AccessError> {
    if let (Schema::Map(_, Some(rule)), None) = (target.parent, target.here) {
        let (_, key) = text.rsplit_once('/').unwrap_or_default();
        breach::check_key(text, &unescape(key), rule)?;
    }
    match fit {
        Fit::Whole => Ok(()),
        Fit::BreaksRule => breach::check_value(text, new, target.here, target.schema),
    }
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
fn put(target: WriteTarget<'_, '_, '_>, new: Value) -> PlannedWrite {
    // Not the plugin's own text, which may have a key twice: parsers differ on which one counts.
    let text = json(&new);
    let is_new_element = matches!(target.last, Last::Missing { .. });
    let (depth, change) = match target.absent {
        Some(absent) => {
            let innermost = if is_new_element {
                Value::Array(vec![new])
            } else {
                new
            };
            let value = absent.keys.into_iter().rev().fold(innermost, |value, key| {
                Value::Object(Map::from_iter([(key.into_owned(), value)]))
            });
            (absent.depth, SlotChange::Put(value))
        }
        None if is_new_element => (target.depth - 1, SlotChange::Insert(new)),
        None => (target.depth.saturating_sub(1), SlotChange::Put(new)),
    };
    let slot = ParentSlot {
        depth,
        steps: target.steps,
    };
    PlannedWrite {
        path: target.canonical,
        new: Some(text),
        slot,
        change,
    }
}
