//! Events on our objects, sent beside the work: the queue is bounded, and what does not fit is dropped rather than waited for.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How many Events wait to be sent. A storm of a thousand sessions tells at least how each began and failed.
const QUEUE: usize = 4096;
/// How long one Event may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The API server refuses longer notes.
const NOTE_MAX: usize = 1024;

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Notice {
    pub(crate) severity: Severity,
    /// One word, from `names::event` or `names::reason`.
    pub(crate) reason: &'static str,
    /// A sentence for people, without secrets.
    pub(crate) note: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

impl Notice {
    pub(crate) fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason,
            note: note.into(),
        }
    }

    pub(crate) fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason,
            note: note.into(),
        }
    }
}

/// Where notices are handed in.
#[derive(Clone)]
pub(crate) struct Events(mpsc::Sender<(ObjectReference, Notice)>);

impl Events {
    /// Returns the queue, and the work that empties it until the queue is dropped.
    pub(crate) fn new(
        client: Client,
        controller: &str,
        instance: Option<String>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let reporter = Reporter {
            controller: controller.to_owned(),
            instance,
        };
        let repeated = Recorder::new(client.clone(), reporter.clone());
        let (sender, mut receiver) = mpsc::channel::<(ObjectReference, Notice)>(QUEUE);
        let work = async move {
            while let Some((about, notice)) = receiver.recv().await {
                // What goes well happens once to each object. A recorder keeps all of its Events for minutes to count repeats,
                // so one that lasts would hold a copy of every session that comes and goes.
                let recorder = match notice.severity {
                    Severity::Normal => Recorder::new(client.clone(), reporter.clone()),
                    Severity::Warning => repeated.clone(),
                };
                publish(&recorder, &about, notice).await;
            }
        };
        (Self(sender), work)
    }

    /// Hands a notice in; a full queue drops it.
    pub(crate) fn tell(&self, about: ObjectReference, notice: Notice) {
        if let Err(error) = self.0.try_send((about, notice)) {
            tracing::debug!(%error, "event dropped");
        }
    }
}

async fn publish(recorder: &Recorder, about: &ObjectReference, notice: Notice) {
    let event = Event {
        type_: match notice.severity {
            Severity::Normal => EventType::Normal,
            Severity::Warning => EventType::Warning,
        },
        reason: notice.reason.to_owned(),
        note: Some(cut(notice.note)),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    match timeout(PATIENCE, recorder.publish(&event, about)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(reason = event.reason, %error, "event refused"),
        Err(_) => tracing::debug!(reason = event.reason, "event not sent in time"),
    }
}

/// Cuts a note to what the API server takes, at the border of a character.
fn cut(mut note: String) -> String {
    note.truncate(note.floor_char_boundary(NOTE_MAX));
    note
}

#[cfg(test)]
mod tests;
