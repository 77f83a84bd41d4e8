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
/// Whom Events name as the controller.
const REPORTER: &str = "podloom";
/// The API server refuses longer notes.
const NOTE_MAX: usize = 1024;

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// How bad it is.
    pub severity: Severity,
    /// One word, from `names::event` or `names::reason`.
    pub reason: &'static str,
    /// A sentence for people, without secrets.
    pub note: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Notice {
    /// Returns a notice of something that is as it should be.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            reason,
            note: note.into(),
        }
    }

    /// Returns a notice of something that somebody should look at.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            reason,
            note: note.into(),
        }
    }
}

/// Where notices are handed in.
#[derive(Clone)]
pub struct Events(mpsc::Sender<(ObjectReference, Notice)>);

impl Events {
    /// Returns the queue, and the work that empties it until the queue is dropped.
    ///
    /// The Events name the instance as their reporter, and the action as what was being done.
    pub fn new(
        client: Client,
        instance: Option<String>,
        action: &'static str,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let reporter = Reporter {
            controller: REPORTER.to_owned(),
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
                publish(&recorder, &about, event(notice, action)).await;
            }
        };
        (Self(sender), work)
    }

    /// Hands a notice in; a full queue drops it.
    pub fn tell(&self, about: ObjectReference, notice: Notice) {
        if let Err(error) = self.0.try_send((about, notice)) {
            tracing::debug!(%error, "event dropped");
        }
    }
}

fn event(notice: Notice, action: &str) -> Event {
    Event {
        type_: match notice.severity {
            Severity::Normal => EventType::Normal,
            Severity::Warning => EventType::Warning,
        },
        reason: notice.reason.to_owned(),
        note: Some(cut(notice.note)),
        action: action.to_owned(),
        secondary: None,
    }
}

async fn publish(recorder: &Recorder, about: &ObjectReference, event: Event) {
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
