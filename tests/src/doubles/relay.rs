//! A relay of gosuda/portal: what it answers, and the requests that it received.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{Double, ReceivedRequests};

/// A relay. Dropping it is its death.
pub struct Relay {
    pub(super) double: Double,
    pub(super) host: String,
}

impl Relay {
    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.double.address
    }

    /// Its host and port, as in its URL.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.double.address.port())
    }

    /// The requests that it received, those that it left without an answer included.
    #[must_use]
    pub fn received(&self) -> ReceivedRequests {
        self.double.ask("/requests")
    }

    /// Forgets the requests that it received.
    pub fn forget(&self) {
        self.double.steer("DELETE", "/requests", "");
    }

    /// Sets what it answers from now on.
    pub fn behave(&self, behaviour: &RelayBehaviour) {
        let behaviour = serde_json::to_string(behaviour).unwrap();
        self.double.steer("PUT", "/behaviour", &behaviour);
    }
}

/// What a relay answers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelayBehaviour {
    /// Which paths it has.
    pub api: RelayApi,
    /// The hostnames that it serves, each with the number of its tunnels' ready connections.
    pub leases: BTreeMap<String, i64>,
}

impl RelayBehaviour {
    /// A relay with these paths that serves these hostnames.
    #[must_use]
    pub fn new(api: RelayApi, hostnames: &[&str]) -> Self {
        let leases = hostnames.iter().map(|host| ((*host).to_owned(), 1));
        Self {
            api,
            leases: leases.collect(),
        }
    }
}

/// Which paths a relay has, or what it does instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RelayApi {
    /// `/api/state` and `/sdk/domain`; its website under all other paths.
    #[default]
    State,
    /// `/tunnel/status` and `/sdk/domain`; its website under all other paths.
    Status,
    /// `/sdk/domain` alone; its website under all other paths.
    Domain,
    /// Its website under all paths.
    Website,
    /// It answers 503 to everything.
    Error,
    /// It answers with JSON that means nothing.
    Garbage,
    /// It redirects everything to another host.
    Redirect,
    /// It answers nothing.
    Hang,
}
