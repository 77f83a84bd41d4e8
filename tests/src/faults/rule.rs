//! Rules: which requests get which fault.

use serde::{Deserialize, Serialize};

/// The verb that selects each change which a watch shows. A fault ends the watch before the change, and an answer takes its place.
pub const CHANGE: &str = "change";

/// A fault to inject.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Fault {
    /// The connection is closed before the request reaches the server.
    Drop,
    /// The request reaches the server, but the connection is closed instead of answering.
    Cut,
    /// The request is never answered.
    Stall,
    /// The request is forwarded when the rules are replaced.
    Hold,
    /// The request is forwarded late.
    Delay {
        /// The delay in seconds.
        seconds: f64,
    },
    /// The proxy answers, and the server never sees the request.
    Answer {
        /// The answer's status.
        status: u16,
        /// The answer's body, in JSON or plain text.
        body: String,
    },
}

impl Fault {
    /// Instead of a change, a watch says that it cannot tell what comes: its client has to list again.
    #[must_use]
    pub fn expired() -> Self {
        let status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": "Expired", "message": "too old resource version", "code": 410,
        });
        Self::Answer {
            status: 200,
            body: serde_json::json!({ "type": "ERROR", "object": status }).to_string(),
        }
    }

    /// An error in the form in which the API server answers.
    #[must_use]
    pub fn api_error(status: u16, reason: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": reason, "message": message, "code": status,
        });
        Self::Answer {
            status,
            body: body.to_string(),
        }
    }
}

/// Selects requests; by default all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestFilter {
    /// Only requests with one of these verbs, of Kubernetes or of HTTP; `write` stands for all verbs that change something. All verbs
    /// but [`CHANGE`] if empty.
    pub verbs: Vec<String>,
    /// Only requests for one of these resources: `pods`, `browsers/status`, `/infrastructures/{id}`. All resources if empty.
    pub resources: Vec<String>,
    /// Only requests with this text in path and query.
    pub path: String,
}

/// One verb and some resources: `create pods`, `write browsers browsers/status`, `POST /infrastructures`.
impl From<&str> for RequestFilter {
    fn from(requests: &str) -> Self {
        let mut words = requests.split(' ').map(str::to_owned);
        Self {
            verbs: words.by_ref().take(1).collect(),
            resources: words.collect(),
            path: String::new(),
        }
    }
}

/// Which requests get which fault.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which requests.
    #[serde(default)]
    pub on: RequestFilter,
    /// How many of them pass before the first fault.
    #[serde(default)]
    pub after: u64,
    /// How many of them get the fault; by default all.
    #[serde(default)]
    pub times: Option<u64>,
    /// The fault.
    pub fault: Fault,
}

impl Rule {
    /// A fault in all of these requests.
    #[must_use]
    pub fn on(requests: impl Into<RequestFilter>, fault: Fault) -> Self {
        Self {
            on: requests.into(),
            after: 0,
            times: None,
            fault,
        }
    }

    /// A fault in one of these requests, after so many others.
    #[must_use]
    pub fn once(requests: impl Into<RequestFilter>, after: u64, fault: Fault) -> Self {
        Self {
            after,
            times: Some(1),
            ..Self::on(requests, fault)
        }
    }

    /// The watch of a kind breaks before the change of this number, and is not answered when it lists again, until the rules are
    /// replaced: its client does not see what happens meanwhile.
    #[must_use]
    pub fn unobserved(resource: &str, number: u64) -> [Self; 3] {
        let changes = RequestFilter::from(&*format!("{CHANGE} {resource}"));
        // A list begins its watch, or comes in pages, some by label. What a pass reads has none of these parameters first.
        let held = ["watch", "l"].map(|parameter| {
            let mut lists = RequestFilter::from(&*format!("list {resource}"));
            lists.path = format!("{resource}?&{parameter}");
            Self::on(lists, Fault::Hold)
        });
        let [streamed, paged] = held;
        let broken = Self::once(changes, number, Fault::expired());
        [broken, streamed, paged]
    }
}
