//! Log lines about requests. Anybody who reaches the webhook can cause them, so there are only so many, and then a count.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use podloom_turns::{Passage, Rate};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::review::Tenant;

const PERIOD: Duration = Duration::from_secs(10);
/// Lines of one kind in a period because of one peer.
const OF_ONE_PEER: u64 = 100;
/// Those about one namespace: a peer speaks for many.
const OF_ONE_NAMESPACE: u64 = 20;

/// What lines are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum About {
    Denied,
    Failed,
}

impl About {
    fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "pod denied",
            Self::Failed => "pod rejected: a plugin failed",
        }
    }
}

/// Who caused lines: a peer, and a namespace that it named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cause {
    about: About,
    peer: Option<IpAddr>,
    namespace: Option<String>,
}

/// Decides which lines about requests are logged. Cheap to clone.
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
    pub(crate) fn may(&self, about: About, (peer, namespace): &Tenant) -> bool {
        let cause = |namespace| Cause {
            about,
            peer: *peer,
            namespace,
        };
        // The peer first: it can invent namespaces.
        self.passes(|rates| &rates.of_peer, cause(None))
            && self.passes(|rates| &rates.of_namespace, cause(Some(namespace.clone())))
    }

    fn passes(&self, which: fn(&Rates) -> &Rate<Cause>, cause: Cause) -> bool {
        let passage = which(&self.0).pass(&cause, Instant::now().into_std());
        if let (Passage::FirstLeftOut(rest), Ok(runtime)) = (passage, Handle::try_current()) {
            let rates = Arc::clone(&self.0);
            runtime.spawn(async move {
                tokio::time::sleep(rest).await;
                let Cause {
                    about,
                    peer,
                    namespace,
                } = &cause;
                tracing::warn!(
                    peer = peer.map(tracing::field::display),
                    namespace,
                    about = about.as_str(),
                    left_out = which(&rates).left_out(&cause, Instant::now().into_std()),
                    "log lines were left out: there were too many of this kind"
                );
            });
        }
        passage == Passage::Passed
    }
}

#[cfg(test)]
mod tests;
