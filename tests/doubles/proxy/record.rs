//! Which requests there were.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

use http::StatusCode;
use podloom_tests::faults::{Counts, ProxiedRequest, UNANSWERED};
use podloom_tests::lock;

use super::name::NamedRequest;

/// How many pairs of verb and resource are counted separately.
const COUNTED: usize = 4096;
/// Counts all further pairs.
const OTHERS: &str = "others";
/// How many requests are kept one by one.
const KEPT: usize = 10_000;

/// Counts all requests, and keeps the last ones.
pub(super) struct Record {
    start: Instant,
    counts: Mutex<Counts>,
    last: Mutex<Last>,
}

/// The last requests.
#[derive(Default)]
struct Last {
    /// The number of the first of them.
    first: usize,
    requests: VecDeque<ProxiedRequest>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            counts: Mutex::default(),
            last: Mutex::default(),
        }
    }
}

impl Record {
    pub(super) fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    pub(super) fn requests(&self) -> Vec<ProxiedRequest> {
        lock(&self.last).requests.iter().cloned().collect()
    }

    /// Counts a request as unanswered.
    pub(super) fn count(&self, request: &NamedRequest) -> UnansweredRequest<'_> {
        let mut name = format!("{} {}", request.verb, request.resource);
        let mut counts = lock(&self.counts);
        if counts.len() >= COUNTED && !counts.contains_key(&name) {
            OTHERS.clone_into(&mut name);
        }
        let codes = counts.entry(name.clone()).or_default();
        *codes.entry(UNANSWERED.to_owned()).or_default() += 1;
        UnansweredRequest {
            number: self.keep(request),
            record: self,
            name,
        }
    }

    /// Keeps a request, and returns its number.
    fn keep(&self, request: &NamedRequest) -> usize {
        let mut last = lock(&self.last);
        if last.requests.len() == KEPT {
            last.requests.pop_front();
            last.first += 1;
        }
        last.requests.push_back(ProxiedRequest {
            seconds: self.start.elapsed().as_secs_f64(),
            method: request.method.clone(),
            path: request.path.clone(),
            status: None,
        });
        last.first + last.requests.len() - 1
    }
}

/// A request that is counted as unanswered.
pub(super) struct UnansweredRequest<'a> {
    record: &'a Record,
    name: String,
    number: usize,
}

impl UnansweredRequest<'_> {
    /// Counts it by its status instead.
    pub(super) fn answered(self, status: StatusCode) {
        let mut counts = lock(&self.record.counts);
        let codes = counts.entry(self.name).or_default();
        if let Some(unanswered) = codes.get_mut(UNANSWERED) {
            *unanswered -= 1;
        }
        codes.retain(|_, count| *count > 0);
        *codes.entry(status.as_u16().to_string()).or_default() += 1;
        let mut last = lock(&self.record.last);
        let index = self.number.checked_sub(last.first);
        if let Some(request) = index.and_then(|index| last.requests.get_mut(index)) {
            request.status = Some(status.as_u16());
        }
    }
}
