//! What people see of a chain: its state, and what the console shows of the past.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use jiff::Timestamp;
use podloom_mutators::{Reload, Serving};
use podloom_turns::lock;
use serde_json::{Value, json};

use crate::mutator::RecentPods;

/// How many attempts to load a chain are remembered.
const ATTEMPTS: usize = 10;

/// What the console shows of the past: the latest pods, and the latest attempts to load the chain. There is none without a console.
#[derive(Default)]
pub(crate) struct History {
    /// The name of the operator's own pod, if it is known.
    pub(super) replica: Option<String>,
    /// The latest pods that came to the chain.
    pub(super) pods: Arc<RecentPods>,
    /// The latest attempts to load the chain, the latest first, as JSON.
    attempts: Mutex<VecDeque<Value>>,
}

impl History {
    /// Nothing has happened yet.
    pub(super) fn new(replica: Option<String>) -> Self {
        Self {
            replica,
            ..Self::default()
        }
    }

    /// Remembers an attempt, unless it failed as the one before.
    pub(super) fn attempted(&self, reload: &Reload) {
        let (chain, took, error) = match reload {
            Reload::Swapped { chain, took } => (Some(chain), Some(*took), None),
            Reload::Restored { chain } => (Some(chain), None, None),
            Reload::Refused { repeated: true, .. } => return,
            Reload::Refused { error, .. } => (None, None, Some(error.to_string())),
        };
        let plugins = chain.iter().flat_map(|chain| chain.plugins());
        let compiled = plugins.filter(|plugin| took.is_some() && plugin.compiled_in.is_some());
        let attempt = json!({
            "at": timestamp(SystemTime::now()),
            "outcome": reload.as_str(),
            // The digest of the chain that serves since then.
            "chain": chain.map(|chain| chain.digest()),
            "milliseconds": took.map(|took| took.as_secs_f64() * 1000.0),
            "compiled": compiled.map(|plugin| plugin.name.as_str()).collect::<Value>(),
            "error": error,
        });
        let mut attempts = lock(&self.attempts);
        attempts.push_front(attempt);
        attempts.truncate(ATTEMPTS);
    }

    /// The latest attempts to load the chain, the latest first.
    pub(super) fn attempts(&self) -> Value {
        lock(&self.attempts).iter().cloned().collect()
    }
}

/// The state of a chain as JSON: its plugins, and why the last attempt to load one failed.
pub(super) fn chain_state(serving: &Serving) -> Value {
    let plugins = serving.chain.iter().flat_map(|chain| chain.plugins());
    let plugins = plugins.map(|plugin| {
        json!({
            "name": plugin.name,
            "version": plugin.description.version,
            "sha256": plugin.sha256,
            "file": plugin.file,
        })
    });
    let error = serving.failed.as_ref().map(|failed| {
        json!({
            "at": timestamp(failed.at),
            "reason": failed.error.reason,
            "message": failed.error.to_string(),
        })
    });
    json!({
        "chain": serving.chain.as_ref().map(|chain| chain.digest()),
        "plugins": plugins.collect::<Value>(),
        "lastReload": serving.since.map(timestamp),
        "lastError": error,
    })
}

/// A time in RFC 3339.
pub(super) fn timestamp(time: SystemTime) -> Option<String> {
    Some(Timestamp::try_from(time).ok()?.to_string())
}

#[cfg(test)]
mod tests;
