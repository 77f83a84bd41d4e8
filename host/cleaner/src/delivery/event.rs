//! The CloudEvent about a deletion, in the binary mode of its HTTP binding. Pure.
//!
//! Each attempt sends the same event: its id is the UID of the Cleaner, so a sink that got it twice can tell.

use std::fmt::Write;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Bytes;
use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::names::cleaner::cloud_event::{SOURCE, TYPE};
use podloom_api::{
    CleanerStatus, DeletionProgress, HelmProgress, ObjectOutcome, PlannedObject, TargetSnapshot,
};
use serde::Serialize;

use crate::discovery::group_version;

/// The version of the specification.
const SPEC_VERSION: &str = "1.0";

/// An event, ready to be sent. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CloudEvent {
    /// Its attributes, and what the body is.
    pub(super) headers: HeaderMap,
    /// What it says, in JSON.
    pub(super) body: Bytes,
}

/// What the event says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    targets: &'a [TargetSnapshot],
    deleted: Vec<Deleted<'a>>,
    helm: Option<Uninstalled<'a>>,
}

/// What became of an object of the plan.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Deleted<'a> {
    target: &'a str,
    api_version: String,
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<ObjectOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// What became of the Helm release. How far the uninstallation was says nothing any more, nor does the UID of a record that is gone.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Uninstalled<'a> {
    release: &'a str,
    revision: Option<i64>,
    kept: &'a [String],
    skipped: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl CloudEvent {
    /// Returns the event about the deletion of a Cleaner; `progress` is how far it is.
    ///
    /// # Errors
    ///
    /// Says what of the Cleaner cannot be sent. None that the API server stores is like that.
    pub(crate) fn about(
        cleaner: &ObjectMeta,
        status: &CleanerStatus,
        progress: &DeletionProgress,
    ) -> Result<Self, String> {
        let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        let (namespace, name) = (text(&cleaner.namespace), text(&cleaner.name));
        let uid = text(&cleaner.uid);
        let body = Body {
            name: &name,
            namespace: &namespace,
            uid: &uid,
            targets: status.targets.as_deref().unwrap_or_default(),
            deleted: progress.objects.iter().map(Deleted::of).collect(),
            helm: progress.helm.as_ref().map(Uninstalled::of),
        };
        let body = serde_json::to_vec(&body).map_err(|error| error.to_string())?;
        let evaluated = status.evaluation_time.as_ref().map(|time| time.0);
        Ok(Self {
            headers: headers(&uid, &format!("{namespace}/{name}"), evaluated)?,
            body: body.into(),
        })
    }
}

impl<'a> Deleted<'a> {
    fn of(object: &'a PlannedObject) -> Self {
        Self {
            target: &object.target,
            api_version: group_version(&object.group, &object.version),
            kind: &object.kind,
            namespace: &object.namespace,
            name: &object.name,
            uid: &object.uid,
            outcome: object.outcome,
            message: object.message.as_deref(),
        }
    }
}

impl<'a> Uninstalled<'a> {
    fn of(progress: &'a HelmProgress) -> Self {
        Self {
            release: &progress.release,
            revision: progress.revision,
            kept: progress.kept.as_deref().unwrap_or_default(),
            skipped: progress.skipped.as_deref().unwrap_or_default(),
            message: progress.message.as_deref(),
        }
    }
}

/// The attributes, each a header, and the type of the body.
fn headers(id: &str, subject: &str, time: Option<Timestamp>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let time = time.map(|time| time.to_string());
    let attributes = [
        ("ce-specversion", Some(SPEC_VERSION)),
        ("ce-id", Some(id)),
        ("ce-source", Some(SOURCE)),
        ("ce-type", Some(TYPE)),
        ("ce-subject", Some(subject)),
        // An attribute that may be left out. A status that somebody else has written may have none.
        ("ce-time", time.as_deref()),
    ];
    for (name, value) in attributes {
        let Some(value) = value else { continue };
        let value = HeaderValue::try_from(encoded(value))
            .map_err(|_| format!("its {name} cannot be written into a header"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// A value as the HTTP binding of CloudEvents writes it into a header (section 3.1.3.2): spaces, quotes, percent signs, and all that is
/// no printable ASCII are percent-encoded.
fn encoded(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'"' | b'%' => escape(&mut encoded, byte),
            b'!'..=b'~' => encoded.push(char::from(byte)),
            _ => escape(&mut encoded, byte),
        }
    }
    encoded
}

fn escape(encoded: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(encoded, "%{byte:02X}");
}

#[cfg(test)]
mod tests;
