//! A step, and its ids.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The id of a trace: the UID of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceId(u128);

/// The id of a step in its trace; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepId(u64);

/// Makes ids that other processes do not make.
#[derive(Debug, Default)]
pub(super) struct StepIds {
    process: RandomState,
    count: AtomicU64,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) trace: TraceId,
    pub(super) id: StepId,
    pub(super) parent: Option<StepId>,
    pub(super) name: String,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) fields: Vec<(&'static str, FieldValue)>,
    /// One word for what went wrong, if anything did.
    pub(super) error: Option<String>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldValue {
    Text(String),
    Integer(i64),
    Truth(bool),
}

impl TraceId {
    /// Reads a UID; none if it is no UUID.
    pub(super) fn of(uid: &str) -> Option<Self> {
        let digits: String = uid.chars().filter(|it| *it != '-').collect();
        let id = u128::from_str_radix(&digits, 16).ok()?;
        (digits.len() == 32 && id != 0).then_some(Self(id))
    }

    /// As OTLP writes it in JSON.
    pub(super) fn shown(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl StepId {
    /// As OTLP writes it in JSON.
    pub(super) fn shown(self) -> String {
        format!("{:016x}", self.0)
    }
}

impl StepIds {
    pub(super) fn next(&self) -> StepId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        StepId(self.process.hash_one(count).max(1))
    }
}
