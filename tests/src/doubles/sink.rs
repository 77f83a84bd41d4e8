//! What was sent to a sink, and what it says to that.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Double;

/// The longest that an answer is held back, in seconds.
const LONGEST: f64 = 3600.0;

/// An HTTP server that remembers what it was asked.
pub struct Sink(pub(super) Double);

impl Sink {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// What it was asked.
    #[must_use]
    pub fn heard(&self) -> Heard {
        self.0.ask("/requests")
    }

    /// Forgets what it was asked.
    pub fn forget(&self) {
        self.0.steer("DELETE", "/requests", "");
    }

    /// Answers like this from now on.
    pub fn reply(&self, reply: &Reply) {
        let reply = serde_json::to_string(reply).unwrap();
        self.0.steer("PUT", "/reply", &reply);
    }
}

/// What a sink was asked.
#[derive(Debug, Deserialize, Serialize)]
pub struct Heard {
    /// How often.
    pub count: u64,
    /// The last of it.
    pub requests: Vec<Recorded>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Recorded {
    /// `POST`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// By their names in small letters; of those that came twice, the last.
    pub headers: BTreeMap<String, String>,
    /// The beginning of the body.
    pub body: String,
    /// How many bytes the whole body had.
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
    /// How long it waits, in seconds.
    pub delay: f64,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            status: 200,
            body: String::new(),
            delay: 0.0,
        }
    }
}

impl Reply {
    /// Returns it if it can be answered.
    ///
    /// # Errors
    ///
    /// Says what cannot.
    pub fn checked(self) -> Result<Self, String> {
        if !(200..600).contains(&self.status) {
            return Err(format!("status {} is none; write 200 to 599", self.status));
        }
        if !(0.0..=LONGEST).contains(&self.delay) {
            return Err(format!(
                "delay {} is none; write 0 to {LONGEST}",
                self.delay
            ));
        }
        Ok(self)
    }
}
