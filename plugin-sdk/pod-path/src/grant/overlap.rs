//! Whether what one plugin writes can make a difference to another one.
//!
//! This depends on grants alone, so it holds for every pod and for whatever the plugins do within their grants.

#[cfg(test)]
mod tests;

use super::{Grant, Grants, Segment};
use crate::schema::ROOT;

/// Every pod has these; any other parent of a granted path may be missing.
const ALWAYS_THERE: [&[&str]; 3] = [&["metadata"], &["spec"], &["spec", "containers"]];

/// How the writes of one plugin can make a difference to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The one may write at this path, where the other may read.
    Writes(String),
    /// Both may add elements to this list, whose order depends on who comes first.
    Adds(String),
    /// The one may create this object or list when it is missing, and the other may find out whether it is there, since it is granted
    /// something in it.
    Creates(String),
}

impl Grants {
    /// How writes with these grants can make a difference to a plugin that is granted those.
    pub(crate) fn disturb(&self, reads: &Self, writes: &Self) -> Option<Disturbance> {
        let pairs = || {
            let seen = || reads.grants.iter().chain(&writes.grants);
            let own = self.grants.iter();
            own.flat_map(move |write| seen().map(move |seen| (write, seen)))
        };
        let added = || {
            let own = self.grants.iter();
            own.flat_map(|write| writes.grants.iter().map(move |other| (write, other)))
        };
        let writes_at = pairs().find_map(|(write, seen)| write.reaches(seen));
        let adds = || added().find_map(|(write, other)| write.adds_beside(other));
        let creates = || pairs().find_map(|(write, seen)| write.creates_above(seen));
        writes_at
            .map(Disturbance::Writes)
            .or_else(|| adds().map(Disturbance::Adds))
            .or_else(|| creates().map(Disturbance::Creates))
    }

    /// The first of these paths that the other ones overlap: one of them covers it, or a part of it.
    #[must_use]
    pub fn overlapping(&self, others: &Self) -> Option<&str> {
        let is_overlapped = |own: &&Grant| {
            let mut others = others.grants.iter();
            others.any(|other| meet(&own.segments, &other.segments))
        };
        let found = self.grants.iter().find(is_overlapped);
        found.map(|own| own.text.as_str())
    }
}

impl Grant {
    /// The path at which a write with this grant can be seen through the other one: the longer of the two, or that of the field by
    /// which the other one finds an element.
    fn reaches(&self, seen: &Self) -> Option<String> {
        if meet(&self.segments, &seen.segments) {
            let is_longer = self.segments.len() >= seen.segments.len();
            return Some(if is_longer { self } else { seen }.text.clone());
        }
        let mut schema = ROOT;
        for (at, segment) in seen.segments.iter().enumerate() {
            let key = match segment {
                Segment::Key(_) => None,
                // A grant of a part of all elements shows their merge keys.
                Segment::Any => schema.element_key(),
                Segment::Selector(selector) => Some(&*selector.key),
            };
            if key.is_some_and(|key| self.writes_key(seen, at, key)) {
                return Some(self.text.clone());
            }
            schema = segment.below(schema);
        }
        None
    }

    /// Whether it is for this field of elements of the list that the other grant's segment of this number is in.
    fn writes_key(&self, seen: &Self, at: usize, key: &str) -> bool {
        let (Some(own), Some(list)) = (self.segments.get(..at), seen.segments.get(..at)) else {
            return false;
        };
        let is_element = self.segments.get(at).is_some_and(|it| !it.is_key());
        let field = self.segments.get(at + 1);
        is_element && meet(own, list) && matches!(field, Some(Segment::Key(field)) if field == key)
    }

    /// The list to which both may add elements.
    fn adds_beside(&self, other: &Self) -> Option<String> {
        let (last, list) = self.segments.split_last()?;
        let (other_last, other_list) = other.segments.split_last()?;
        let is_same = list.len() == other_list.len() && meet(list, other_list);
        let both_add = !last.is_key() && !other_last.is_key();
        (is_same && both_add).then(|| self.above(list.len()))
    }

    /// The first parent of both paths that may be missing.
    fn creates_above(&self, seen: &Self) -> Option<String> {
        let shortest = self.segments.len().min(seen.segments.len());
        let parents = (1..shortest).map_while(|depth| {
            let (own, others) = (self.segments.get(..depth)?, seen.segments.get(..depth)?);
            meet(own, others).then_some(own)
        });
        // Elements of lists are never created as parents.
        let mut created = parents.filter(|own| own.last().is_some_and(Segment::is_key));
        let found = created.find(|own| !is_always_there(own))?;
        Some(self.above(found.len()))
    }

    /// The text of the first segments.
    fn above(&self, depth: usize) -> String {
        let segments = self.text.split('/').take(depth + 1);
        segments.collect::<Vec<_>>().join("/")
    }
}

impl Segment {
    /// Whether both can name the same field or element.
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(one), Self::Key(other)) => one == other,
            // Other fields of an element say nothing about this one.
            (Self::Selector(one), Self::Selector(other)) => {
                one.key != other.key || one.value == other.value
            }
            // A field that the schema does not know may be a list or an object.
            _ => true,
        }
    }
}

/// Whether one path can be above the other one, or the same.
fn meet(one: &[Segment], other: &[Segment]) -> bool {
    one.iter().zip(other).all(|(one, other)| one.meets(other))
}

fn is_always_there(parent: &[Segment]) -> bool {
    ALWAYS_THERE.iter().any(|there| {
        there.len() == parent.len()
            && there
                .iter()
                .zip(parent)
                .all(|(there, own)| matches!(own, Segment::Key(key) if key == there))
    })
}
