//! The marks of an object: annotations and labels that say when it is to be deleted.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use kube::core::ObjectMeta;
use podloom_api::names::cleaner::lifetime::{
    JANITOR_EXPIRES, JANITOR_TTL, KYVERNO_PROPAGATION, KYVERNO_TTL,
};
use podloom_api::{PropagationPolicy, duration};
use podloom_engine::plan::later;
use podloom_engine::shown::shown;

/// How long a mark may be, in bytes. It becomes a part of a condition.
const LENGTH_MAX: usize = 64;

/// The field of the metadata that has a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkField {
    Annotation,
    Label,
}

impl MarkField {
    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Annotation => "annotations",
            Self::Label => "labels",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::Label => "label",
        }
    }

    fn value<'a>(self, object: &'a ObjectMeta, key: &str) -> Option<&'a str> {
        let all = match self {
            Self::Annotation => object.annotations.as_ref(),
            Self::Label => object.labels.as_ref(),
        };
        all?.get(key).map(String::as_str)
    }
}

/// A mark, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) field: MarkField,
    pub(super) key: &'static str,
    /// None if it is not there.
    pub(super) value: Option<String>,
}

/// When and how an object is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expiry {
    pub(super) due: Timestamp,
    /// All that is read of the object, also what is not there.
    pub(super) marks: Vec<Mark>,
    pub(super) propagation: PropagationPolicy,
}

/// Reads a value: when the object is to be deleted, which was created at this time, or never.
type ReadMark = fn(&str, Timestamp) -> Result<Option<Timestamp>, &'static str>;

const MARKS: [(MarkField, &str, ReadMark); 3] = [
    (MarkField::Annotation, JANITOR_TTL, janitor_ttl),
    (MarkField::Annotation, JANITOR_EXPIRES, janitor_expires),
    (MarkField::Label, KYVERNO_TTL, kyverno_ttl),
];

/// Returns the keys of all that is read of this field.
pub(super) fn keys(field: MarkField) -> impl Iterator<Item = &'static str> {
    let more = (field == MarkField::Annotation).then_some(KYVERNO_PROPAGATION);
    let marks = MARKS.into_iter().filter(move |(of, _, _)| *of == field);
    marks.map(|(_, key, _)| key).chain(more)
}

/// Reads the marks of an object; none if it may live for ever. Of several times, the earliest counts.
///
/// # Errors
///
/// What is wrong with a mark, and what to write instead. Then no other mark counts: in doubt the object stays.
pub(super) fn expiry(object: &ObjectMeta) -> Result<Option<Expiry>, String> {
    let Some(created) = object.creation_timestamp.as_ref().map(|it| it.0) else {
        return Ok(None);
    };
    let mut due: Option<Timestamp> = None;
    for (field, key, read) in MARKS {
        let Some(value) = field.value(object, key) else {
            continue;
        };
        let read = match value.len() <= LENGTH_MAX {
            true => read(value, created),
            false => Err("it is too long"),
        };
        let at = read.map_err(|problem| unusable((field, key), value, problem))?;
        due = due.into_iter().chain(at).min();
    }
    let Some(due) = due else {
        return Ok(None);
    };
    let fields = [MarkField::Annotation, MarkField::Label].into_iter();
    let marks = fields.flat_map(|field| keys(field).map(move |key| (field, key)));
    let marks = marks.map(|(field, key)| Mark {
        field,
        key,
        value: field.value(object, key).map(str::to_owned),
    });
    Ok(Some(Expiry {
        due,
        marks: marks.collect(),
        propagation: propagation(object)?,
    }))
}

fn unusable((field, key): (MarkField, &str), value: &str, problem: &str) -> String {
    let word = field.word();
    format!("the {word} {key} is {:?}: {problem}", shown(value))
}

fn janitor_ttl(value: &str, created: Timestamp) -> Result<Option<Timestamp>, &'static str> {
    if value.eq_ignore_ascii_case("forever") {
        return Ok(None);
    }
    let problem = "write a number with a unit (s, m, h, d, w), such as 36h or 7d, or forever";
    after(value, created).map(Some).ok_or(problem)
}

fn janitor_expires(value: &str, _: Timestamp) -> Result<Option<Timestamp>, &'static str> {
    let at = value.parse().ok();
    let at = at.or_else(|| in_utc(DateTime::strptime("%Y-%m-%dT%H:%M", value)));
    let problem =
        "write a time in UTC, such as 2026-01-31T04:00:00Z or 2026-01-31T04:00, or a date";
    at.or_else(|| day(value)).map(Some).ok_or(problem)
}

fn kyverno_ttl(value: &str, created: Timestamp) -> Result<Option<Timestamp>, &'static str> {
    // A label has no colons.
    let at = in_utc(DateTime::strptime("%Y-%m-%dT%H%M%SZ", value)).or_else(|| day(value));
    let problem = "write a number with a unit (s, m, h, d, w), such as 36h or 7d, a time in UTC, such as 2026-01-31T040000Z, or a date";
    at.or_else(|| after(value, created))
        .map(Some)
        .ok_or(problem)
}

fn propagation(object: &ObjectMeta) -> Result<PropagationPolicy, String> {
    let field = MarkField::Annotation;
    match field.value(object, KYVERNO_PROPAGATION) {
        None | Some("Background") => Ok(PropagationPolicy::Background),
        Some("Foreground") => Ok(PropagationPolicy::Foreground),
        Some(other) => {
            let problem = "write Background or Foreground; a Cleaner leaves nothing behind of what an object owns";
            Err(unusable((field, KYVERNO_PROPAGATION), other, problem))
        }
    }
}

/// The time after a duration of seconds, minutes, hours, days and weeks. None is 0: some mean by it that the object stays.
fn after(value: &str, created: Timestamp) -> Option<Timestamp> {
    let lifetime = duration::parse(value).ok()?;
    let has_known_units = value
        .bytes()
        .all(|it| it.is_ascii_digit() || b".smhdw".contains(&it));
    let is_whole = has_known_units && !value.contains("ms");
    (is_whole && lifetime >= Duration::from_secs(1)).then(|| later(created, lifetime))
}

fn day(value: &str) -> Option<Timestamp> {
    in_utc(Date::strptime("%Y-%m-%d", value).map(|it| it.to_datetime(civil::Time::midnight())))
}

fn in_utc(time: Result<DateTime, jiff::Error>) -> Option<Timestamp> {
    let time = time.and_then(|it| it.to_zoned(TimeZone::UTC)).ok()?;
    Some(time.timestamp())
}

#[cfg(test)]
mod tests;
