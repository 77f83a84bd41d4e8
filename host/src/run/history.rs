//! What the console shows of the past: the latest pods, and the latest attempts to load the chain. There is none without a console.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use podloom_mutators::Reload;
use podloom_turns::lock;

use crate::mutator::RecentPods;

/// How many attempts to load a chain are remembered.
const ATTEMPTS: usize = 10;

/// What the console shows of the past.
#[derive(Default)]
pub(crate) struct History {
    /// The name of the operator's own pod, if it is known.
    pub(super) replica: Option<String>,
    /// The latest pods that came to the chain.
    pub(super) pods: Arc<RecentPods>,
    attempts: Mutex<VecDeque<Attempt>>,
}

/// An attempt to load a chain.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) at: SystemTime,
    /// How it ended, in one word.
    pub(super) outcome: &'static str,
    /// The digest of the chain that serves since then; none if the new one was refused.
    pub(super) chain: Option<String>,
    /// How long building and proving the chain took; none if that is not known.
    pub(super) took: Option<Duration>,
    /// The plugins that were compiled for it.
    pub(super) compiled: Vec<String>,
    /// Why it was refused.
    pub(super) error: Option<String>,
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
        let mut attempt = Attempt {
            at: SystemTime::now(),
            outcome: reload.as_str(),
            chain: None,
            took: None,
            compiled: Vec::new(),
            error: None,
        };
        match reload {
            Reload::Swapped { chain, took } => {
                let compiled = chain.plugins().iter();
                let compiled = compiled.filter(|plugin| plugin.compiled_in.is_some());
                attempt.compiled = compiled.map(|plugin| plugin.name.clone()).collect();
                attempt.chain = Some(chain.digest().to_owned());
                attempt.took = Some(*took);
            }
            Reload::Restored { chain } => attempt.chain = Some(chain.digest().to_owned()),
            Reload::Refused { repeated: true, .. } => return,
            Reload::Refused { error, .. } => attempt.error = Some(error.to_string()),
        }
        let mut attempts = lock(&self.attempts);
        if attempts.len() == ATTEMPTS {
            attempts.pop_back();
        }
        attempts.push_front(attempt);
    }

    /// The latest first.
    pub(super) fn attempts(&self) -> Vec<Attempt> {
        lock(&self.attempts).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
