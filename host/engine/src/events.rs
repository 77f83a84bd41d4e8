//! Events about our objects, sent in the background. The queues are bounded, and what does not fit is dropped.
//!
//! An Event is created in the namespace of its object; Events about cluster-scoped objects are in the namespace `default`. The rights
//! for both are part of every duty's row.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::{FutureExt, future};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use podloom_mutation::Severity;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

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
    metrics: SendMetrics,
    client: Client,
    /// The reporting instance of the Events.
    instance: String,
    action: &'static str,
    /// The warnings of the last minutes, by object and reason. All Events about one object are in one lane.
    warnings: HashMap<(ObjectKey, &'static str), Series>,
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
                    metrics: metrics.clone(),
                    client: client.clone(),
                    instance: instance.unwrap_or(REPORTER).to_owned(),
                    action,
                    warnings: HashMap::new(),
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
            let outcome = self.send(&about, notice).await;
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

// Writes Events. A warning that comes again within minutes is counted in its first Event.
//
// Not kube's recorder: it makes the name of an Event of the whole name of its object, which is too long if that is long.

/// The reporting controller of all Events.
const REPORTER: &str = "podloom";
/// Where Events about cluster-scoped objects are.
const DEFAULT_NAMESPACE: &str = "default";
/// How long a warning is the same one as before.
const SERIES: Duration = Duration::from_secs(6 * 60);
/// How much of an object's name is in the name of an Event. With a dot and the time in hexadecimal it is as long as names may be.
const STEM: usize = 253 - 1 - 16;

/// The kind, namespace, name and UID of an object.
type ObjectKey = [Option<String>; 4];

struct Series {
    /// The name of the Event.
    name: String,
    count: i32,
    last: Instant,
}

impl Sending {
    async fn send(&mut self, about: &ObjectReference, notice: Notice) -> SendOutcome {
        let reason = notice.reason;
        match timeout(SEND_TIMEOUT, self.publish(about, notice)).await {
            Ok(Ok(())) => return SendOutcome::Sent,
            Ok(Err(error)) => {
                tracing::debug!(reason, error = plain(&error), "event rejected");
            }
            Err(_) => tracing::debug!(reason, "event not sent in time"),
        }
        SendOutcome::Failed
    }

    /// Writes a notice about an object.
    ///
    /// # Errors
    /// If the API server does not take it.
    async fn publish(
        &mut self,
        about: &ObjectReference,
        notice: Notice,
    ) -> Result<(), kube::Error> {
        let namespace = about.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let key = (key(about), notice.reason);
        let is_warning = notice.severity == Severity::Warning;
        let now = Instant::now();
        self.warnings.retain(|_, series| now < series.last + SERIES);
        if is_warning && let Some(series) = self.warnings.get_mut(&key) {
            match series.count(&events).await {
                // It was deleted meanwhile.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                done => return done,
            }
        }
        let event = self.event(about, notice);
        let name = event.metadata.name.clone().unwrap_or_default();
        events.create(&PostParams::default(), &event).await?;
        if is_warning {
            let series = Series {
                name,
                count: 1,
                last: now,
            };
            self.warnings.insert(key, series);
        }
        Ok(())
    }

    fn event(&self, about: &ObjectReference, notice: Notice) -> Event {
        let now = Timestamp::now();
        let type_ = match notice.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        Event {
            metadata: ObjectMeta {
                namespace: about.namespace.clone(),
                name: Some(event_name(about.name.as_deref().unwrap_or(REPORTER), now)),
                ..ObjectMeta::default()
            },
            type_: Some(type_.to_owned()),
            reason: Some(notice.reason.to_owned()),
            note: Some(cut(notice.note)),
            action: Some(self.action.to_owned()),
            event_time: Some(MicroTime(now)),
            regarding: Some(about.clone()),
            reporting_controller: Some(REPORTER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

impl Series {
    /// Counts one more.
    async fn count(&mut self, events: &Api<Event>) -> Result<(), kube::Error> {
        let series = EventSeries {
            count: self.count.saturating_add(1),
            last_observed_time: MicroTime(Timestamp::now()),
        };
        let patch = Patch::Merge(json!({ "series": series }));
        events
            .patch(&self.name, &PatchParams::default(), &patch)
            .await?;
        (self.count, self.last) = (series.count, Instant::now());
        Ok(())
    }
}

fn key(about: &ObjectReference) -> ObjectKey {
    [&about.kind, &about.namespace, &about.name, &about.uid].map(Clone::clone)
}

/// The name of an Event: that of its object as far as there is room, and the time.
fn event_name(object: &str, now: Timestamp) -> String {
    let stem = &object[..object.floor_char_boundary(STEM)];
    // A name may not have a dot or a dash before a dot.
    let stem = stem.trim_end_matches(['.', '-']);
    format!("{stem}.{:x}", now.as_nanosecond())
}

#[cfg(test)]
mod tests;
