//! Reads `metadata.managedFields`: which manager wrote which field of an object, and when.
//!
//! The API server keeps one entry for each manager, with the set of its fields in the format FieldsV1. Everyone who may write the
//! object may write that too, so it is read as a record, not as a proof, and nothing in it can fail: what makes no sense is left out.
//! A webhook's writes to an object that is created are in no entry.

use std::borrow::Cow;
use std::cell::Cell;

use jiff::Timestamp;
use serde_json::Value;

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
    /// Whether it writes by server-side apply.
    pub(crate) applies: bool,
    /// As `status`; none for the object itself.
    pub(crate) subresource: Option<String>,
    /// When it last wrote a field that it did not have before.
    pub(crate) time: Option<Timestamp>,
    /// Whether it made the object. Those fields are what was submitted, and the API server's defaults.
    pub(crate) is_maker: bool,
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
        let early = fields.early();
        for (index, (entry, _)) in fields.entries.iter_mut().enumerate() {
            entry.is_maker = early.contains(&index);
        }
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
        self.owners_at(&resolved(self.object, path, &self.work))
    }

    fn owners_at(&self, path: &[Step<'_, '_>]) -> Vec<&Entry> {
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
        let path = resolved(self.object, path, &self.work);
        let within = self.entries.iter();
        let within = within.filter(|(_, fields)| fields.owns_within(&path, &self.work));
        let within: Vec<&Entry> = within.map(|(entry, _)| entry).collect();
        match within.is_empty() {
            true => self.owners_at(&path),
            false => within,
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
        let updated = indices(&|entry, fields| !entry.applies && fields.are_of_the_maker());
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
        applies: text("operation")? == "Apply",
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

/// How much may still be looked at. Who writes an object decides how long its lists and managedFields are, and how many paths a stamp
/// has; together they must not take long.
struct Work(Cell<u64>);

/// A segment of a path, and the value there.
struct Step<'p, 'o> {
    segment: Segment<'p>,
    value: Option<&'o Value>,
}

/// A segment of a path.
enum Segment<'p> {
    Key(Cow<'p, str>),
    /// `[key=value]`
    Selector {
        key: Cow<'p, str>,
        value: Cow<'p, str>,
    },
    Index(&'p str),
}

impl Work {
    const fn new(limit: u64) -> Self {
        Self(Cell::new(limit))
    }

    /// Takes some of it; false if that much is not left, and then nothing is.
    fn spend(&self, number: usize) -> bool {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let left = self.0.get().checked_sub(number);
        self.0.set(left.unwrap_or_default());
        left.is_some()
    }

    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// A path, resolved on an object.
fn resolved<'p, 'o>(object: &'o Value, path: &'p str, work: &Work) -> Vec<Step<'p, 'o>> {
    let mut value = Some(object);
    let steps = path.split('/').skip(1).map(|raw| {
        let segment = Segment::parse(raw, value);
        value = value.and_then(|value| segment.of(value, work));
        Step { segment, value }
    });
    steps.collect()
}

impl<'p> Segment<'p> {
    fn parse(raw: &'p str, value: Option<&Value>) -> Self {
        let selector = raw.strip_prefix('[').and_then(|raw| raw.strip_suffix(']'));
        // A key of a map may look like a selector or an index.
        if value.is_some_and(Value::is_object) {
            return Self::Key(unescape(raw));
        }
        if let Some((key, value)) = selector.and_then(|selector| selector.split_once('=')) {
            return Self::Selector {
                key: unescape(key),
                value: unescape(value),
            };
        }
        match value.is_some_and(Value::is_array) {
            true => Self::Index(raw),
            false => Self::Key(unescape(raw)),
        }
    }

    /// The value here.
    fn of<'o>(&self, value: &'o Value, work: &Work) -> Option<&'o Value> {
        match self {
            Self::Key(key) => value.get(key.as_ref()),
            Self::Index(index) => value.get(index.parse::<usize>().ok()?),
            Self::Selector { key, value: wanted } => {
                let elements = value.as_array()?.iter();
                let mut elements = elements.take_while(|_| work.spend(1));
                elements.find(|element| {
                    let found = element.get(key.as_ref());
                    found.is_some_and(|found| is_text(found, wanted))
                })
            }
        }
    }
}

/// Whether a scalar is what a selector writes.
fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found == text,
        Value::Number(found) => found.to_string() == text,
        Value::Bool(found) => text == if *found { "true" } else { "false" },
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn unescape(text: &str) -> Cow<'_, str> {
    match text.contains('~') {
        true => Cow::Owned(text.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(text),
    }
}

/// How deep a tree is read; deeper than any path.
const DEPTH: usize = 64;
/// How many keys an element of a list may have; more than in any list of Kubernetes.
const KEYS: usize = 8;
/// The fields of pods, and of what makes pods, that are owned only as a whole: the objects that Kubernetes' API calls atomic, and the
/// list that it calls so although its elements have keys. A tree does not say that. All other objects are owned field by field, and
/// lists whose elements have keys element by element, so who owns an empty one owns nothing that others put there.
const ATOMIC: [&str; 15] = [
    "configMapKeyRef",
    "dataSource",
    "fieldRef",
    "fileKeyRef",
    "hostIPs",
    "labelSelector",
    "namespaceSelector",
    "nodePublishSecretRef",
    "nodeSelector",
    "preference",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "resourceFieldRef",
    "secretKeyRef",
    "secretRef",
    "selector",
];

/// The fields of one manager at one place of an object. The format is a tree whose keys are `f:<field>`, `k:<keys of a list's element>`,
/// `v:<value of a list's element>`, `i:<index>`, and `.` for the value itself.
#[derive(Debug, Default)]
struct Fields<'o> {
    /// Whether the value here is owned itself, without what is in it.
    owns_itself: bool,
    /// Sorted by name.
    fields: Vec<(&'o str, Self)>,
    elements: Vec<(Element, Self)>,
}

/// Which element of a list is meant.
#[derive(Debug)]
enum Element {
    /// The one with these values of the list's keys.
    Keys(Vec<(String, Value)>),
    /// The one that equals this value.
    Equal(Value),
    Index(usize),
}

impl<'o> Fields<'o> {
    /// Reads a tree, until no room is left.
    fn read(tree: &'o Value, room: &mut usize) -> Self {
        Self::read_at(tree, room, DEPTH)
    }

    fn read_at(tree: &'o Value, room: &mut usize, depth: usize) -> Self {
        let mut read = Self::default();
        let (Some(tree), Some(depth)) = (tree.as_object(), depth.checked_sub(1)) else {
            return read;
        };
        let fields = tree.keys().filter(|key| key.starts_with("f:")).count();
        read.fields.reserve_exact(fields.min(*room));
        for (key, child) in tree {
            let Some(left) = room.checked_sub(1) else {
                return read;
            };
            *room = left;
            if key == "." {
                read.owns_itself = true;
            } else if let Some(field) = key.strip_prefix("f:") {
                let child = Self::read_at(child, room, depth);
                // The keys of a map are sorted.
                read.fields.push((field, child));
            } else if let Some(element) = Element::read(key) {
                let child = Self::read_at(child, room, depth);
                read.elements.push((element, child));
            }
        }
        read
    }

    /// How many segments of a path lead to the value that is owned: all, if that is the path's own value, or fewer, if an object or
    /// list around it is owned as a whole. None if it is not owned.
    fn owned_at(&self, path: &[Step<'_, '_>], work: &Work) -> Option<usize> {
        let mut here = self;
        let mut above: Option<&Step<'_, '_>> = None;
        for (count, step) in path.iter().enumerate() {
            if let Some(above) = above.filter(|_| here.is_leaf()) {
                return is_one_value(above, step).then_some(count);
            }
            here = here.step(step, work)?;
            above = Some(step);
        }
        let is_owned = above.is_some() && (here.owns_itself || here.is_leaf());
        is_owned.then_some(path.len())
    }

    /// Whether the value at a path is owned, or anything in it.
    fn owns_within(&self, path: &[Step<'_, '_>], work: &Work) -> bool {
        let mut steps = path.iter();
        let reached = steps.try_fold(self, |here, step| here.step(step, work));
        reached.is_some()
    }

    /// Whether these are fields that nobody can give to an object that exists: the containers of a pod, and the selector of what makes
    /// pods.
    fn are_of_the_maker(&self) -> bool {
        let Some(spec) = self.field("spec") else {
            return false;
        };
        let elements = |list: &Self| list.elements.iter().any(|(_, it)| it.owns_itself);
        let has_containers = spec.field("containers").is_some_and(elements);
        has_containers || spec.field("selector").is_some()
    }

    fn is_leaf(&self) -> bool {
        self.fields.is_empty() && self.elements.is_empty()
    }

    fn field(&self, name: &str) -> Option<&Self> {
        let found = self
            .fields
            .binary_search_by(|(field, _)| (*field).cmp(name));
        let (_, found) = self.fields.get(found.ok()?)?;
        Some(found)
    }

    /// What is owned one step further.
    fn step(&self, step: &Step<'_, '_>, work: &Work) -> Option<&Self> {
        if let Segment::Key(key) = &step.segment {
            return self.field(key);
        }
        let mut elements = self.elements.iter().take_while(|_| work.spend(1));
        let (_, found) = elements.find(|(it, _)| it.is_at(step))?;
        Some(found)
    }
}

/// Whether the value at a step, in which a manager owns nothing else, is one value with what is in it, at the next step.
fn is_one_value(at: &Step<'_, '_>, next: &Step<'_, '_>) -> bool {
    match (&next.segment, &at.segment) {
        (Segment::Index(_), _) => true,
        (_, Segment::Key(name)) => ATOMIC.contains(&name.as_ref()),
        _ => false,
    }
}

impl Element {
    /// Reads a key of a tree. An element is known by scalars.
    fn read(key: &str) -> Option<Self> {
        let json = |text: &str| serde_json::from_str::<Value>(text).ok();
        let is_scalar = |value: &Value| !value.is_array() && !value.is_object();
        match key.split_once(':')? {
            ("k", keys) => match json(keys)? {
                Value::Object(keys) => {
                    let is_usable =
                        (1..=KEYS).contains(&keys.len()) && keys.values().all(is_scalar);
                    is_usable.then(|| Self::Keys(keys.into_iter().collect()))
                }
                _ => None,
            },
            ("v", value) => json(value).filter(is_scalar).map(Self::Equal),
            ("i", index) => index.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    /// Whether this is the element at a step. One that is gone is found by its merge key alone.
    fn is_at(&self, step: &Step<'_, '_>) -> bool {
        match (self, step.value) {
            (Self::Keys(keys), Some(element)) => {
                let mut known = keys.iter().filter_map(|(key, expected)| {
                    let found = element.get(key)?;
                    Some(found == expected)
                });
                known.next() == Some(true) && known.all(|is_equal| is_equal)
            }
            (Self::Keys(keys), None) => match &step.segment {
                Segment::Selector { key, value } => {
                    let mut keys = keys.iter();
                    keys.any(|(name, found)| name == key && is_text(found, value))
                }
                _ => false,
            },
            (Self::Equal(expected), value) => value == Some(expected),
            (Self::Index(expected), _) => {
                matches!(step.segment, Segment::Index(index) if index.parse() == Ok(*expected))
            }
        }
    }
}

#[cfg(test)]
mod tests;
