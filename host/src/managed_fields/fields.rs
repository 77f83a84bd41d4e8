//! A set of fields in the format FieldsV1: a tree whose keys are `f:<field>`, `k:<keys of a list's element>`, `v:<value of a list's
//! element>`, `i:<index>`, and `.` for the value itself.

use serde_json::Value;

use super::path::{Path, Segment, Step, Work, is_text};

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

/// The fields of one manager at one place of an object.
#[derive(Debug, Default)]
pub(super) struct Fields<'o> {
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
    pub(super) fn read(tree: &'o Value, room: &mut usize) -> Self {
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
    pub(super) fn owned_at(&self, path: &Path<'_, '_>, work: &Work) -> Option<usize> {
        let mut here = self;
        let mut above: Option<&Step<'_, '_>> = None;
        for (count, step) in path.0.iter().enumerate() {
            if let Some(above) = above.filter(|_| here.is_leaf()) {
                return is_one_value(above, step).then_some(count);
            }
            here = here.step(step, work)?;
            above = Some(step);
        }
        let is_owned = above.is_some() && (here.owns_itself || here.is_leaf());
        is_owned.then_some(path.0.len())
    }

    /// Whether the value at a path is owned, or anything in it.
    pub(super) fn owns_within(&self, path: &Path<'_, '_>, work: &Work) -> bool {
        let mut steps = path.0.iter();
        let reached = steps.try_fold(self, |here, step| here.step(step, work));
        reached.is_some()
    }

    /// Whether these are fields that nobody can give to an object that exists: the containers of a pod, and the selector of what makes
    /// pods.
    pub(super) fn are_of_the_maker(&self) -> bool {
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
