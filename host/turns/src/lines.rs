//! Log lines about requests, and those of plugins. Anybody who reaches the webhook can cause them, so there are only so many, and then a
//! count.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::{Passage, Rate};

const PERIOD: Duration = Duration::from_secs(10);
/// Lines of one kind in a period because of one peer.
const OF_ONE_PEER: u64 = 100;
/// Those about one namespace: a peer speaks for many.
const OF_ONE_NAMESPACE: u64 = 20;

/// Who caused lines, and what they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cause {
    /// What they say, in a few words.
    pub about: &'static str,
    /// The plugin of which they are.
    pub plugin: Option<String>,
    /// Who asked for what they are about; none for the operator itself.
    pub peer: Option<IpAddr>,
    /// The namespace that it named.
    pub namespace: Option<String>,
}

/// Decides which of these lines are logged. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lines(Arc<Rates>);

#[derive(Debug)]
struct Rates {
    of_peer: Rate<Cause>,
    of_namespace: Rate<Cause>,
}

impl Default for Lines {
    fn default() -> Self {
        Self(Arc::new(Rates {
            of_peer: Rate::new(OF_ONE_PEER, PERIOD),
            of_namespace: Rate::new(OF_ONE_NAMESPACE, PERIOD),
        }))
    }
}

impl Lines {
    /// Whether a line may be logged. Those that may not are counted, and the count is logged.
    #[must_use]
    pub fn may(&self, cause: Cause) -> bool {
        // The peer first: it can invent namespaces.
        let of_peer = Cause {
            namespace: None,
            ..cause.clone()
        };
        let now = Instant::now().into_std();
        if self.0.of_peer.is_used_up(&of_peer, now) {
            return self.passes(|rates| &rates.of_peer, of_peer) == Passage::Passed;
        }
        // Only what its namespace lets pass counts for a peer, or one namespace could use up the lines of all others. If too many
        // namespaces are remembered, the limit of the peer is what holds.
        let of_namespace = self.passes(|rates| &rates.of_namespace, cause);
        matches!(of_namespace, Passage::Passed | Passage::NoRoom)
            && self.passes(|rates| &rates.of_peer, of_peer) == Passage::Passed
    }

    fn passes(&self, which: fn(&Rates) -> &Rate<Cause>, cause: Cause) -> Passage {
        let passage = which(&self.0).pass(&cause, Instant::now().into_std());
        if let (Passage::FirstLeftOut(rest), Ok(runtime)) = (passage, Handle::try_current()) {
            let rates = Arc::clone(&self.0);
            runtime.spawn(async move {
                tokio::time::sleep(rest).await;
                let Cause {
                    about,
                    plugin,
                    peer,
                    namespace,
                } = &cause;
                tracing::warn!(
                    peer = peer.map(tracing::field::display),
                    namespace,
                    plugin,
                    about,
                    left_out = which(&rates).left_out(&cause, Instant::now().into_std()),
                    "log lines were left out: there were too many of this kind"
                );
            });
        }
        passage
    }
}

#[cfg(test)]
mod tests;
