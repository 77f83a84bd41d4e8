//! The requests that a sink received, and its answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::Double;

/// The longest delay of an answer, in seconds.
const LONGEST: f64 = 3600.0;

/// An HTTP server that records its requests.
pub struct Sink(pub(super) Double);

impl Sink {
    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The requests that it received.
    #[must_use]
    pub fn received(&self) -> ReceivedRequests {
        self.0.ask("/requests")
    }

    /// Forgets the requests that it received.
    pub fn forget(&self) {
        self.0.steer("DELETE", "/requests", "");
    }

    /// Sets the answer to all later requests.
    pub fn reply(&self, reply: &Reply) {
        let reply = serde_json::to_string(reply).unwrap();
        self.0.steer("PUT", "/reply", &reply);
    }
}

/// The requests that a sink received.
#[derive(Debug, Deserialize, Serialize)]
pub struct ReceivedRequests {
    /// The number of all requests.
    pub count: u64,
    /// The last 1,000 requests.
    pub requests: Vec<ReceivedRequest>,
}

/// A request that a sink received.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ReceivedRequest {
    /// The method, such as `POST`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers by lower-case name; if a header came twice, the last value.
    pub headers: BTreeMap<String, String>,
    /// The start of the body.
    pub body: String,
    /// The length of the whole body in bytes.
    pub length: usize,
}

/// What a sink answers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
    /// How long it waits before it answers, in seconds.
    pub delay: f64,
    /// More headers of the answer, such as `retry-after`.
    pub headers: BTreeMap<String, String>,
    /// Whether it closes the connection instead of answering. The request is recorded nevertheless.
    pub lost: bool,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            status: 200,
            body: String::new(),
            delay: 0.0,
            headers: BTreeMap::new(),
            lost: false,
        }
    }
}

impl Reply {
    /// Returns an answer with this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    /// Returns the answer with another header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Returns the answer that never comes: the connection is closed once the request is recorded.
    #[must_use]
    pub fn lost() -> Self {
        Self {
            lost: true,
            ..Self::default()
        }
    }

    /// Checks that the status and the delay are in range, and the headers are such.
    ///
    /// # Errors
    ///
    /// The error message names the value that is out of range, and the range, or the header.
    pub fn checked(self) -> Result<Self, String> {
        if !(200..600).contains(&self.status) {
            return Err(format!(
                "status {} is out of range; write 200 to 599",
                self.status
            ));
        }
        if !(0.0..=LONGEST).contains(&self.delay) {
            return Err(format!(
                "delay {} is out of range; write 0 to {LONGEST}",
                self.delay
            ));
        }
        for (name, value) in &self.headers {
            let is_header =
                HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok();
            if !is_header {
                return Err(format!("{name}: {value} is no header"));
            }
        }
        Ok(self)
    }
}
