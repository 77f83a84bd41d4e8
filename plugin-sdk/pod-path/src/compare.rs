//! What is different between two pods, as paths.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::json::is_read_alike;
use crate::path::{ListSegment, push_escaped, push_selector, segments, unescape};
use crate::schema::{ROOT, Schema};
use crate::walk::text_of;

/// How many elements of a list without merge key are compared one by one; a list with more differences has one change.
const ELEMENTS: usize = 8;

/// One difference between two pods.
#[derive(Clone, Debug, PartialEq)]
pub struct PodChange<'v> {
    /// What happened.
    pub kind: ChangeKind,
    /// Where: an element of a list is named as `[key=value]` by the list's merge key. In a list without one, or whose keys are not
    /// unique, it is named by its index, or as `-` if it is appended.
    pub path: String,
    /// The old value; none if it is added.
    pub old: Option<&'v Value>,
    /// The new value; none if it is removed.
    pub new: Option<&'v Value>,
    /// How many of the objects and lists around a removed value go with it, because nothing is left in them. What is missing around an
    /// added value is created, as by a write.
    pub parents: usize,
}

/// What happened to a value.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ChangeKind {
    /// There was none.
    Added,
    /// There is none any more.
    Removed,
    /// It is another one.
    Changed,
    /// The elements of this list are in another order than if the removed ones were taken out and the added ones appended.
    Reordered,
}

/// Returns what is different between two pods. A field that is null counts as absent.
///
/// An added or removed object or list is one change. Where `splits` says so of its path, its fields and elements are changes of their
/// own: a label is `/metadata/labels/team` then, whether the pod had other labels or none. An element of a list with a merge key is
/// always one change.
///
/// ```
/// use podloom_pod_path::{ChangeKind, compare};
/// use serde_json::json;
///
/// let old = json!({ "spec": { "containers": [{ "name": "a", "image": "x:1" }] } });
/// let new = json!({ "spec": { "containers": [{ "name": "a", "image": "x:2", "env": [] }, { "name": "b" }] } });
/// let changes = compare(&old, &new, &|_| false);
/// let found: Vec<_> = changes.iter().map(|it| (it.kind, it.path.as_str())).collect();
/// assert_eq!(found, [
///     (ChangeKind::Added, "/spec/containers/[name=a]/env"),
///     (ChangeKind::Changed, "/spec/containers/[name=a]/image"),
///     (ChangeKind::Added, "/spec/containers/[name=b]"),
/// ]);
/// ```
#[must_use]
pub fn compare<'v>(
    old: &'v Value,
    new: &'v Value,
    splits: &dyn Fn(&str) -> bool,
) -> Vec<PodChange<'v>> {
    let mut comparison = Comparison {
        changes: Vec::new(),
        path: String::new(),
        splits,
        parents: 0,
    };
    comparison.values(ROOT, present(old), present(new));
    comparison.changes
}

struct Comparison<'v, 'f> {
    changes: Vec<PodChange<'v>>,
    /// Of the values that are compared now.
    path: String,
    splits: &'f dyn Fn(&str) -> bool,
    /// How many parents of these values exist on one side only.
    parents: usize,
}

impl<'v> Comparison<'v, '_> {
    fn values(&mut self, schema: Schema, old: Option<&'v Value>, new: Option<&'v Value>) {
        match (old, new) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                self.fields(schema, Some(old), Some(new));
            }
            (Some(old @ Value::Array(_)), Some(new @ Value::Array(_))) => {
                self.lists(schema, old, new);
            }
            (Some(one), None) | (None, Some(one)) if (self.splits)(&self.path) => {
                self.split(schema, one, old.is_some());
            }
            _ => self.scalars(old, new),
        }
    }

    /// Two values that are one change at most.
    fn scalars(&mut self, old: Option<&'v Value>, new: Option<&'v Value>) {
        let kind = match (old, new) {
            (None, None) => return,
            (Some(old), Some(new)) if old == new => return,
            (Some(_), Some(_)) => ChangeKind::Changed,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Removed,
        };
        self.push(kind, old, new);
    }

    fn push(&mut self, kind: ChangeKind, old: Option<&'v Value>, new: Option<&'v Value>) {
        self.changes.push(PodChange {
            kind,
            path: self.path.clone(),
            old,
            new,
            parents: if kind == ChangeKind::Removed {
                self.parents
            } else {
                0
            },
        });
    }

    /// A value that only one side has, field by field and element by element.
    fn split(&mut self, schema: Schema, value: &'v Value, is_old: bool) {
        let sides = |value: &'v Value| match is_old {
            true => (Some(value), None),
            false => (None, Some(value)),
        };
        self.parents += 1;
        match value {
            Value::Object(fields) if fields.values().any(|field| !field.is_null()) => {
                match is_old {
                    true => self.fields(schema, Some(fields), None),
                    false => self.fields(schema, None, Some(fields)),
                }
                self.parents -= 1;
            }
            Value::Array(elements) if !elements.is_empty() => {
                match (keys(schema, elements), schema.element_key()) {
                    (Some(keys), Some(name)) => {
                        for (key, element) in keys.iter().zip(elements) {
                            let (old, new) = sides(element);
                            self.under_selector(name, key, |it| it.scalars(old, new));
                        }
                    }
                    // The indices of what is left would change with each element that goes.
                    _ if is_old => {
                        self.parents -= 1;
                        return self.scalars(Some(value), None);
                    }
                    _ => {
                        for element in elements {
                            self.under("-", |it| it.scalars(None, Some(element)));
                        }
                    }
                }
                self.parents -= 1;
            }
            _ => {
                self.parents -= 1;
                let (old, new) = sides(value);
                self.scalars(old, new);
            }
        }
    }

    fn fields(
        &mut self,
        schema: Schema,
        old: Option<&'v Map<String, Value>>,
        new: Option<&'v Map<String, Value>>,
    ) {
        let field = |fields: Option<&'v Map<String, Value>>, key: &str| {
            fields.and_then(|fields| fields.get(key)).and_then(present)
        };
        let olds = old.into_iter().flatten().map(|(key, _)| key);
        let news = new.into_iter().flatten().map(|(key, _)| key);
        let news = news.filter(|key| old.is_none_or(|old| !old.contains_key(*key)));
        let mut keys: Vec<&String> = olds.chain(news).collect();
        keys.sort();
        for key in keys {
            let length = self.path.len();
            self.path.push('/');
            push_escaped(&mut self.path, key);
            self.values(schema.field(key), field(old, key), field(new, key));
            self.path.truncate(length);
        }
    }

    fn lists(&mut self, schema: Schema, old: &'v Value, new: &'v Value) {
        let (Value::Array(olds), Value::Array(news)) = (old, new) else {
            return;
        };
        let both = keys(schema, olds).zip(keys(schema, news));
        match (both, schema.element_key()) {
            (Some((old_keys, new_keys)), Some(name)) => {
                self.elements(schema, name, (olds, &old_keys), (news, &new_keys));
                if !is_in_order(&old_keys, &new_keys) {
                    self.push(ChangeKind::Reordered, Some(old), Some(new));
                }
            }
            _ => self.positions(schema, (old, olds), (new, news)),
        }
    }

    /// The elements of two lists with a merge key.
    fn elements(
        &mut self,
        schema: Schema,
        name: &str,
        (olds, old_keys): (&'v [Value], &[String]),
        (news, new_keys): (&'v [Value], &[String]),
    ) {
        let by_key: HashMap<&String, &'v Value> = new_keys.iter().zip(news).collect();
        for (key, old) in old_keys.iter().zip(olds) {
            self.under_selector(name, key, |it| match by_key.get(key) {
                Some(new) => it.values(schema.element(), Some(old), Some(new)),
                None => it.scalars(Some(old), None),
            });
        }
        let known: HashSet<&String> = old_keys.iter().collect();
        let added = new_keys.iter().zip(news);
        for (key, new) in added.filter(|(key, _)| !known.contains(key)) {
            self.under_selector(name, key, |it| it.scalars(None, Some(new)));
        }
    }

    /// Two lists whose elements have no names. What is appended is a change of its own, and so is an element that differs in place;
    /// what is more than that is one change of the list.
    fn positions(
        &mut self,
        schema: Schema,
        (old, olds): (&'v Value, &'v [Value]),
        (new, news): (&'v Value, &'v [Value]),
    ) {
        let pairs = olds.iter().zip(news).enumerate();
        let different: Vec<usize> = pairs
            .filter(|(_, (old, new))| !is_read_alike(old, new))
            .map(|(index, _)| index)
            .take(ELEMENTS + 1)
            .collect();
        if different.is_empty() && olds.len() <= news.len() {
            for new in news.iter().skip(olds.len()) {
                self.under("-", |it| it.scalars(None, Some(new)));
            }
            return;
        }
        let is_in_place = olds.len() == news.len()
            && different.len() <= ELEMENTS
            && !is_permuted(&different, olds, news);
        if !is_in_place {
            self.push(ChangeKind::Changed, Some(old), Some(new));
            return;
        }
        for index in different {
            let (old, new) = (olds.get(index), news.get(index));
            self.under(&index.to_string(), |it| {
                // Null is an element of its own in a list.
                match (old, new) {
                    (Some(Value::Null), _) | (_, Some(Value::Null)) => it.scalars(old, new),
                    _ => it.values(schema.element(), old, new),
                }
            });
        }
    }

    fn under(&mut self, segment: &str, compare: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(segment);
        compare(self);
        self.path.truncate(length);
    }

    fn under_selector(&mut self, name: &str, key: &str, compare: impl FnOnce(&mut Self)) {
        let mut segment = String::new();
        push_selector(&mut segment, name, key);
        self.under(&segment, compare);
    }
}

/// A field that is null is absent.
fn present(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

/// The merge keys of a list's elements; none if the list has no merge key, or if an element has none of its own.
fn keys(schema: Schema, elements: &[Value]) -> Option<Vec<String>> {
    let name = schema.element_key()?;
    let key = |element| text_of(element, name).map(Cow::into_owned);
    let keys: Vec<String> = elements.iter().map(key).collect::<Option<_>>()?;
    let unique: HashSet<&String> = keys.iter().collect();
    (unique.len() == keys.len()).then_some(keys)
}

/// Whether the new elements are the old ones that are kept, in their order, and then the added ones.
fn is_in_order(old_keys: &[String], new_keys: &[String]) -> bool {
    let (old, new): (HashSet<&String>, HashSet<&String>) =
        (old_keys.iter().collect(), new_keys.iter().collect());
    let kept = old_keys.iter().filter(|key| new.contains(key));
    let appended = new_keys.iter().filter(|key| !old.contains(key));
    kept.chain(appended).eq(new_keys)
}

/// Whether the elements at these positions only changed places.
fn is_permuted(different: &[usize], olds: &[Value], news: &[Value]) -> bool {
    let at = |list: &[Value]| -> Vec<Value> {
        different
            .iter()
            .filter_map(|index| list.get(*index).cloned())
            .collect()
    };
    let (mut left, right) = (at(olds), at(news));
    right.iter().all(|new| {
        let found = left.iter().position(|old| is_read_alike(old, new));
        found.map(|index| left.swap_remove(index)).is_some()
    })
}

/// The segments that name the elements of a list in a pod, in their order, as [`compare`](crate::compare) and
/// [`Write::path`](crate::Write::path) name them: `[key=value]` by the list's merge key, or the index in a list without one, or whose
/// keys are not unique.
///
/// ```
/// use podloom_pod_path::element_segments;
/// use serde_json::json;
///
/// let env = [json!({ "name": "TZ", "value": "UTC" }), json!({ "name": "LANG" })];
/// assert_eq!(element_segments("/spec/containers/[name=web]/env", &env), ["[name=TZ]", "[name=LANG]"]);
/// assert_eq!(element_segments("/spec/containers/[name=web]/args", &[json!("-v")]), ["0"]);
/// ```
#[must_use]
pub fn element_segments(list: &str, elements: &[Value]) -> Vec<String> {
    let schema = schema_at(list);
    let (Some(keys), Some(name)) = (keys(schema, elements), schema.element_key()) else {
        return (0..elements.len()).map(|index| index.to_string()).collect();
    };
    let segment = |key: &String| {
        let mut segment = String::new();
        push_selector(&mut segment, name, key);
        segment
    };
    keys.iter().map(segment).collect()
}

/// The type of what is at a path, whether it is there or not.
fn schema_at(path: &str) -> Schema {
    segments(path).fold(ROOT, |schema, raw| match schema {
        Schema::List(..) if ListSegment::parse(raw).is_some() => schema.element(),
        _ => schema.field(&unescape(raw)),
    })
}

#[cfg(test)]
mod tests;
