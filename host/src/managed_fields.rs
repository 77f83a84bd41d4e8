//! Reads `metadata.managedFields`: which manager wrote which field of an object, and when.
//!
//! The API server keeps one entry for each manager, with the set of its fields in the format FieldsV1. Everyone who may write the
//! object may write that too, so it is read as a record, not as a proof, and nothing in it can fail: what makes no sense is left out.
//! A webhook's writes to an object that is created are in no entry.

mod fields;
mod path;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

use self::fields::Fields;
use self::path::{Path, Work};

/// How many entries are read. The API server itself merges the oldest ones above ten.
const ENTRIES: usize = 100;
/// How many fields are read, in all entries together.
const FIELDS: usize = 100_000;

/// Who wrote which fields of an object.
pub(crate) struct ManagedFields<'o> {
    object: &'o Value,
    entries: Vec<(Entry, Fields<'o>)>,
    /// Whether there were more entries or fields than are read.
    has_more: bool,
    work: Work,
}

/// A manager that wrote fields.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    /// Its name, which its client chose.
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    /// As `status`; none for the object itself.
    pub(crate) subresource: Option<String>,
    /// When it last wrote a field that it did not have before.
    pub(crate) time: Option<Timestamp>,
    /// Whether it made the object. Those fields are what was submitted, and the API server's defaults.
    pub(crate) is_maker: bool,
}

/// How a manager writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Entry {
    /// Whether it wrote fields of the object itself after somebody else had made it.
    pub(crate) fn is_later_edit(&self) -> bool {
        !self.is_maker && !self.is_of_status()
    }

    /// Whether it writes the status.
    pub(crate) fn is_of_status(&self) -> bool {
        self.subresource.as_deref() == Some("status")
    }
}

impl<'o> ManagedFields<'o> {
    /// Reads those of an object. An object without any has no entries. At most `work` elements of lists are looked at later, in the
    /// object and in its entries: for a path of a usual pod some hundred.
    pub(crate) fn of(object: &'o Value, work: u64) -> Self {
        let listed = object.pointer("/metadata/managedFields");
        let listed = listed.and_then(Value::as_array).map(Vec::as_slice);
        let listed = listed.unwrap_or_default();
        let mut room = FIELDS;
        let entries = listed.iter().take(ENTRIES);
        let entries = entries.filter_map(|listed| read(listed, &mut room));
        let entries = entries.collect();
        let mut fields = Self {
            object,
            entries,
            has_more: room == 0 || listed.len() > ENTRIES,
            work: Work::new(work),
        };
        fields.find_makers();
        fields
    }

    /// Whether owners may be missing: there is more than is read, or was looked at.
    pub(crate) fn is_cut(&self) -> bool {
        self.has_more || self.work.is_spent()
    }

    /// All entries, as the object lists them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|(entry, _)| entry)
    }

    /// The entries that own the value at a path: a JSON Pointer whose segments on lists are `[key=value]`, by the merge key, or
    /// indices. Where no entry owns the value itself, these are those that own the object or list around it as a whole.
    pub(crate) fn owners(&self, path: &str) -> Vec<&Entry> {
        self.owners_at(&Path::on(self.object, path, &self.work))
    }

    fn owners_at(&self, path: &Path<'_, '_>) -> Vec<&Entry> {
        let depths = self.entries.iter().filter_map(|(entry, fields)| {
            let depth = fields.owned_at(path, &self.work)?;
            Some((depth, entry))
        });
        let depths: Vec<(usize, &Entry)> = depths.collect();
        let deepest = depths.iter().map(|(depth, _)| *depth).max();
        // Of entries that were not looked at, nothing is known.
        let is_known = !self.work.is_spent();
        let owners = depths.into_iter();
        let owners = owners.filter(|(depth, _)| is_known && Some(*depth) == deepest);
        owners.map(|(_, entry)| entry).collect()
    }

    /// The entries that own the value at a path, or anything in it.
    pub(crate) fn owners_within(&self, path: &str) -> Vec<&Entry> {
        let path = Path::on(self.object, path, &self.work);
        let within = self.entries.iter();
        let within = within.filter(|(_, fields)| fields.owns_within(&path, &self.work));
        let within: Vec<&Entry> = within.map(|(entry, _)| entry).collect();
        match within.is_empty() {
            true => self.owners_at(&path),
            false => within,
        }
    }

    /// Finds out who made the object.
    fn find_makers(&mut self) {
        let early = self.early();
        for (index, (entry, _)) in self.entries.iter_mut().enumerate() {
            entry.is_maker = early.contains(&index);
        }
    }

    /// The entries of who made the object. The time of an entry is in seconds, and changes with each of its writes. So if possible they
    /// are known by what nobody can give to an object that exists; who applies it later owns that, too.
    fn early(&self) -> Vec<usize> {
        let entries = self.entries.iter().enumerate();
        let entries = entries.filter(|(_, (entry, _))| entry.subresource.is_none());
        let all: Vec<(usize, &Entry, &Fields<'_>)> = entries
            .map(|(index, (entry, fields))| (index, entry, fields))
            .collect();
        let indices = |is_one: &dyn Fn(&Entry, &Fields<'_>) -> bool| -> Vec<usize> {
            let ones = all
                .iter()
                .filter(|(_, entry, fields)| is_one(entry, fields));
            ones.map(|(index, ..)| *index).collect()
        };
        let updated = indices(&|entry, fields| {
            entry.operation == Operation::Update && fields.are_of_the_maker()
        });
        if !updated.is_empty() {
            return updated;
        }
        let applied = all.iter().filter(|(_, _, it)| it.are_of_the_maker());
        if let Some((index, ..)) = applied.min_by_key(|(_, entry, _)| entry.time) {
            return vec![*index];
        }
        let made = time(self.object.pointer("/metadata/creationTimestamp"));
        indices(&|entry, _| match (entry.time, made) {
            (Some(time), Some(made)) => time <= made,
            _ => true,
        })
    }
}

fn read<'o>(listed: &'o Value, room: &mut usize) -> Option<(Entry, Fields<'o>)> {
    let text = |field: &str| listed.get(field).and_then(Value::as_str);
    let entry = Entry {
        manager: text("manager").unwrap_or_default().to_owned(),
        operation: match text("operation")? {
            "Apply" => Operation::Apply,
            _ => Operation::Update,
        },
        subresource: text("subresource")
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
        time: time(listed.get("time")),
        is_maker: false,
    };
    Some((entry, Fields::read(listed.get("fieldsV1")?, room)))
}

fn time(value: Option<&Value>) -> Option<Timestamp> {
    value?.as_str()?.parse().ok()
}
