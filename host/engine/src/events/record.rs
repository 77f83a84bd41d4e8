//! Writes Events. A warning that comes again within minutes is counted in its first Event.
//!
//! Not kube's recorder: it makes the name of an Event of the whole name of its object, which is too long if that is long.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use podloom_mutation::Severity;
use serde_json::json;
use tokio::time::Instant;

use super::{Notice, cut};

/// The reporting controller of all Events.
const REPORTER: &str = "podloom";
/// Where Events about cluster-scoped objects are.
const DEFAULT_NAMESPACE: &str = "default";
/// How long a warning is the same one as before.
const SERIES: Duration = Duration::from_secs(6 * 60);
/// How much of an object's name is in the name of an Event. With a dot and the time in hexadecimal it is as long as names may be.
const STEM: usize = 253 - 1 - 16;

/// Writes Events, one after another.
pub(super) struct Recorder {
    client: Client,
    instance: String,
    action: &'static str,
    /// The warnings of the last minutes, by object and reason.
    warnings: HashMap<(ObjectKey, &'static str), Series>,
}

/// The kind, namespace, name and UID of an object.
type ObjectKey = [Option<String>; 4];

struct Series {
    /// The name of the Event.
    name: String,
    count: i32,
    last: Instant,
}

impl Recorder {
    /// `instance` is the reporting instance of the Events, and `action` their action.
    pub(super) fn new(client: Client, instance: Option<String>, action: &'static str) -> Self {
        Self {
            client,
            instance: instance.unwrap_or_else(|| REPORTER.to_owned()),
            action,
            warnings: HashMap::new(),
        }
    }

    /// Writes a notice about an object.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub(super) async fn publish(
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
mod tests {
    use jiff::Timestamp;
    use podloom_syntax::names::dns_subdomain;

    use super::event_name;

    #[test]
    fn the_name_of_an_event_is_never_too_long() {
        let now = Timestamp::now();
        assert!(event_name("web", now).starts_with("web."));
        for length in [1, 235, 236, 237, 253] {
            let plain = event_name(&"a".repeat(length), now);
            assert_eq!(dns_subdomain(&plain), Ok(()), "{length}");
            let dotted = event_name(&"a.".repeat(length.div_ceil(2)), now);
            assert_eq!(dns_subdomain(&dotted), Ok(()), "{dotted}");
        }
        assert_ne!(event_name("web", now), event_name("web", Timestamp::now()));
    }
}
