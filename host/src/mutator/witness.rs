//! Hands on what the serving chain made of pods, to somebody who compares it. No pod waits for that: what cannot be handed on at once
//! is dropped.

use std::sync::Arc;

use podloom_mutation::{MutatedPod, PodRejection, PodRequest, RejectedPod, runs};
use podloom_mutators::{CHAIN, Chain, Slot};
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use tokio::sync::mpsc::{self, OwnedPermit, Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many pods wait to be compared.
const QUEUE: usize = 64;
/// How much memory they take together, in KiB.
const KIBIBYTES: usize = 16 << 10;
/// What a value takes, besides its text.
const NODE: usize = 64;

/// Sees each pod before and after the serving chain.
pub(crate) struct Witness {
    queue: Sender<Seen>,
    memory: Arc<Semaphore>,
    /// The slot of the candidate. While it has no chain, there is nothing to compare.
    candidate: Arc<Slot>,
    dropped: Counter,
}

/// A pod, and what the serving chain made of it.
pub(crate) struct Seen {
    pub(crate) before: Value,
    pub(crate) request: PodRequest,
    /// The digest of the chain; none without a chain.
    pub(crate) chain: Option<String>,
    pub(crate) result: Result<MutatedPod, RejectedPod>,
    _memory: [OwnedSemaphorePermit; 2],
}

/// A pod that passes the serving chain now.
pub(super) struct Look {
    before: Value,
    request: PodRequest,
    place: OwnedPermit<Seen>,
    memory: OwnedSemaphorePermit,
    witness: Arc<Witness>,
}

impl Witness {
    /// A witness, and what it hands on.
    pub(crate) fn new(candidate: Arc<Slot>, dropped: Counter) -> (Self, Receiver<Seen>) {
        let (queue, seen) = mpsc::channel(QUEUE);
        let witness = Self {
            queue,
            memory: Arc::new(Semaphore::new(KIBIBYTES)),
            candidate,
            dropped,
        };
        (witness, seen)
    }

    /// Keeps the pod as it is before the chain; none if there is nothing to compare, or no room.
    pub(super) fn look(self: &Arc<Self>, pod: &Value, request: &PodRequest) -> Option<Box<Look>> {
        // What has passed a chain already was compared then: what it was before is not known. Without its namespace, a pod says little.
        if self.candidate.serving().chain.is_none()
            || is_stamped(pod)
            || request.is_namespace_unread
        {
            return None;
        }
        let place = self.queue.clone().try_reserve_owned().ok();
        let room = place.and_then(|place| {
            let memory = self.take(weight(pod) + weight_of_request(request))?;
            Some((place, memory))
        });
        let Some((place, memory)) = room else {
            self.dropped.inc();
            return None;
        };
        Some(Box::new(Look {
            before: pod.clone(),
            request: PodRequest {
                // Nobody waits for the comparison.
                deadline: None,
                wants_patch: false,
                ..request.clone()
            },
            place,
            memory,
            witness: Arc::clone(self),
        }))
    }

    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kibibytes = u32::try_from(bytes.div_ceil(1 << 10)).ok()?;
        let memory = Arc::clone(&self.memory);
        memory.try_acquire_many_owned(kibibytes).ok()
    }
}

impl Look {
    /// Hands on what the chain made of the pod.
    pub(super) fn hand_on(self, chain: Option<&Chain>, result: &Result<MutatedPod, RejectedPod>) {
        // That the time was over, or that the namespace is not known, says nothing about the chain.
        let is_cut_short = matches!(
            result,
            Err(RejectedPod {
                rejection: PodRejection::Overdue(_) | PodRejection::Unread(_),
                ..
            })
        );
        let room = self.witness.take(weight_of(result));
        let Some(room) = room.filter(|_| !is_cut_short) else {
            self.witness.dropped.inc();
            return;
        };
        self.place.send(Seen {
            before: self.before,
            request: self.request,
            chain: chain.map(|chain| chain.digest().to_owned()),
            result: without_patch(result),
            _memory: [self.memory, room],
        });
    }
}

fn is_stamped(pod: &Value) -> bool {
    let annotations = pod
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    annotations.is_some_and(|annotations| annotations.get(CHAIN).is_some())
}

fn without_patch(result: &Result<MutatedPod, RejectedPod>) -> Result<MutatedPod, RejectedPod> {
    match result {
        Ok(mutated) => Ok(MutatedPod {
            pod: mutated.pod.clone(),
            patch: None,
            chain: mutated.chain.clone(),
            runs: mutated.runs.clone(),
        }),
        Err(rejected) => Err(rejected.clone()),
    }
}

/// About how many bytes a request takes.
fn weight_of_request(request: &PodRequest) -> usize {
    let maps = [
        &request.labels,
        &request.annotations,
        &request.namespace_labels,
        &request.namespace_annotations,
    ];
    let entries = maps.into_iter().flatten();
    entries
        .map(|(key, value)| key.len() + value.len() + NODE)
        .sum()
}

/// About how many bytes a result takes.
fn weight_of(result: &Result<MutatedPod, RejectedPod>) -> usize {
    let pod = match result {
        Ok(mutated) => weight(&mutated.pod),
        Err(rejected) => rejected.rejection.message().len(),
    };
    let texts = runs(result).iter().flat_map(|run| {
        let paths = run.writes.iter().map(|write| write.path.len());
        paths.chain(run.notes.iter().map(|note| note.text.len()))
    });
    pod + texts.map(|text| text + NODE).sum::<usize>()
}

/// About how many bytes a value takes.
fn weight(value: &Value) -> usize {
    let content = match value {
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(weight).sum(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields.map(|(key, value)| key.len() + weight(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    content + NODE
}

#[cfg(test)]
mod tests;
