//! Events about our objects, sent in the background. The queues are bounded, and what does not fit is dropped.
//!
//! An Event is created in the namespace of its object; Events about cluster-scoped objects are in the namespace `default`. The rights
//! for both are part of every duty's row (`duties::Row::all_rights`).

mod record;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::{FutureExt, future};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use podloom_mutation::Severity;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::record::Recorder;
use super::plain::plain;
use super::sent::{SendMetrics, SendOutcome};

/// How many Events are sent at once. Those about one object are sent one after another, in their order.
const LANES: usize = 8;
/// How many Events wait in each lane: enough for a few about each of a thousand objects at once.
const QUEUE: usize = 512;
/// How long sending one Event may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// The API server rejects longer notes.
const NOTE_MAX: usize = 1024;
/// How long a note with appended sentences may be.
const APPENDED_MAX: usize = 1000;
/// How much of that is for "… and 3 more".
const MORE_MAX: usize = 32;

/// What an Event says about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Whether somebody should look.
    pub severity: Severity,
    /// One word, from `names::event` or `names::reason`.
    pub reason: &'static str,
    /// A sentence for people, without secrets.
    pub note: String,
}

impl Notice {
    /// Returns a notice of type `Normal`.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason,
            note: note.into(),
        }
    }

    /// Returns a notice of type `Warning`.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason,
            note: note.into(),
        }
    }
}

/// The queues of notices that become Events; cheap to clone.
#[derive(Clone)]
pub struct Events {
    lanes: Vec<mpsc::Sender<Addressed>>,
    metrics: SendMetrics,
}

/// A notice, and the object that it is about.
type Addressed = (ObjectReference, Notice);

/// Sends the notices of one lane. When it is dropped, it counts what is left as dropped.
struct Sending {
    queue: mpsc::Receiver<Addressed>,
    /// Whether a notice is being sent.
    is_sending: bool,
    /// Counts repeated warnings. All Events about one object are in one lane.
    recorder: Recorder,
    metrics: SendMetrics,
}

impl Events {
    /// Returns the queues, and the work that sends what is in them until they are dropped.
    ///
    /// `instance` is the reporting instance of the Events, and `action` their action.
    pub fn new(
        client: &Client,
        instance: Option<&str>,
        action: &'static str,
        metrics: SendMetrics,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (lanes, work): (Vec<_>, Vec<_>) = (0..LANES)
            .map(|_| {
                let (sender, queue) = mpsc::channel(QUEUE);
                let sending = Sending {
                    queue,
                    is_sending: false,
                    recorder: Recorder::new(client.clone(), instance.map(str::to_owned), action),
                    metrics: metrics.clone(),
                };
                (sender, sending.run())
            })
            .unzip();
        (Self { lanes, metrics }, future::join_all(work).map(drop))
    }

    /// Queues a notice; if the queue is full, the notice is dropped.
    pub fn send(&self, about: ObjectReference, notice: Notice) {
        let mut hasher = DefaultHasher::new();
        (&about.namespace, &about.name).hash(&mut hasher);
        let lane = hasher.finish() % LANES as u64;
        let sent = usize::try_from(lane)
            .ok()
            .and_then(|lane| self.lanes.get(lane))
            .is_some_and(|lane| lane.try_send((about, notice)).is_ok());
        if !sent {
            self.metrics.count(SendOutcome::Dropped, 1);
        }
    }
}

impl Sending {
    async fn run(mut self) {
        while let Some((about, notice)) = self.queue.recv().await {
            self.is_sending = true;
            let outcome = publish(&mut self.recorder, &about, notice).await;
            self.is_sending = false;
            self.metrics.count(outcome, 1);
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.queue.close();
        let mut left = usize::from(self.is_sending);
        while self.queue.try_recv().is_ok() {
            left += 1;
        }
        self.metrics.count(SendOutcome::Dropped, left);
    }
}

/// The metrics of Events, registered.
pub fn metrics(registry: &mut Registry) -> SendMetrics {
    let metrics = SendMetrics::default();
    registry.register(
        "events",
        "Events about objects, by outcome: sent, failed, or dropped because the queue was full or the process stopped",
        metrics.clone(),
    );
    metrics
}

async fn publish(recorder: &mut Recorder, about: &ObjectReference, notice: Notice) -> SendOutcome {
    let reason = notice.reason;
    match timeout(SEND_TIMEOUT, recorder.publish(about, notice)).await {
        Ok(Ok(())) => SendOutcome::Sent,
        Ok(Err(error)) => {
            tracing::debug!(reason, error = plain(&error), "event rejected");
            SendOutcome::Failed
        }
        Err(_) => {
            tracing::debug!(reason, "event not sent in time");
            SendOutcome::Failed
        }
    }
}

/// Cuts a note to what the API server accepts, between two characters. Our lists have `; ` between their sentences: those that are cut
/// are counted.
fn cut(note: String) -> String {
    if note.len() <= NOTE_MAX {
        return note;
    }
    let (kept, rest) = note.split_at(note.floor_char_boundary(NOTE_MAX - MORE_MAX));
    match rest.matches("; ").count() {
        0 => format!("{kept}…"),
        more => format!("{kept}… and {more} more"),
    }
}

/// Appends sentences to a note as far as they fit, then how many are left out.
#[must_use]
pub fn appended(note: String, sentences: &[String]) -> String {
    let mut whole = note;
    let mut ends = Vec::with_capacity(sentences.len());
    for sentence in sentences {
        whole.push_str("; ");
        whole.push_str(sentence);
        ends.push(whole.len());
    }
    if whole.len() <= APPENDED_MAX {
        return whole;
    }
    whole.truncate(whole.floor_char_boundary(APPENDED_MAX - MORE_MAX));
    let left_out = ends.iter().filter(|end| **end > whole.len()).count();
    format!("{whole}… and {left_out} more")
}

#[cfg(test)]
mod tests;
