//! Which requests go wrong, and how.

use serde::{Deserialize, Serialize};

/// What goes wrong with a request.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Fault {
    /// The connection is closed before the request reaches the API server.
    Drop,
    /// The request reaches the API server, and the connection is closed in place of the answer.
    Cut,
    /// Nothing happens any more.
    Stall,
    /// The request is passed on later.
    Delay {
        /// How much later.
        seconds: f64,
    },
    /// The proxy answers, and the API server never sees the request.
    Answer {
        /// The answer's status.
        status: u16,
        /// The answer's body, in JSON or plain text.
        body: String,
    },
}

impl Fault {
    /// A refusal as the API server words them.
    #[must_use]
    pub fn refusal(status: u16, reason: &str, message: &str) -> Self {
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

/// Some of the requests; by default all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Requests {
    /// Of one of these verbs; `write` stands for all that change something.
    pub verbs: Vec<String>,
    /// Of one of these resources: `pods`, `browsers/status`.
    pub resources: Vec<String>,
    /// With this text in path and query.
    pub path: String,
}

impl Requests {
    /// Those of one verb and resource: `create pods`, `write browsers/status`.
    #[must_use]
    pub fn of(request: &str) -> Self {
        let (verb, resource) = request.split_once(' ').unwrap();
        Self {
            verbs: vec![verb.to_owned()],
            resources: vec![resource.to_owned()],
            path: String::new(),
        }
    }
}

/// What goes wrong with which requests.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// With which ones.
    #[serde(default)]
    pub on: Requests,
    /// How many of them pass first.
    #[serde(default)]
    pub after: u64,
    /// How many it goes wrong with; without it, with all.
    #[serde(default)]
    pub times: Option<u64>,
    /// What goes wrong.
    pub fault: Fault,
}
