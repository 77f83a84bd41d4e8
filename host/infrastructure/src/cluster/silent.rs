//! Infrastructure Managers that do not answer. While one is silent, one Cluster at a time asks it; the others are told at once, so that
//! they hold no worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podloom_turns::lock;
use tokio::time::Instant;

use super::action::Reply;
use crate::im::{Failure, FailureKind, Sent, Target};

/// A request without an answer that took so long held a worker in vain.
const LONG: Duration = Duration::from_secs(3);
/// How many silent servers are remembered. Their URLs are what users write.
const MOST: usize = 1000;

/// The servers that are silent, and whether somebody asks them now. Cheap to clone; all clones share them.
#[derive(Clone, Default)]
pub(crate) struct Silent(Arc<Mutex<HashMap<Server, bool>>>);

/// A server, as the providers of a namespace name it: nobody else's requests say anything about it.
type Server = (String, String);

/// Somebody asks a server, until this is dropped.
pub(crate) struct Turn<'a> {
    silent: &'a Silent,
    server: Server,
    begun: Instant,
    /// Whether it was silent before, and nobody else asks it now.
    is_alone: bool,
}

impl Silent {
    /// Begins to ask a server; none if it is silent, and somebody else asks it already.
    pub(crate) fn turn(&self, target: &Target) -> Option<Turn<'_>> {
        let server = (target.tenant.clone(), target.url.clone());
        let mut all = lock(&self.0);
        let is_alone = match all.get_mut(&server) {
            None => false,
            Some(true) => return None,
            Some(is_asked) => {
                *is_asked = true;
                true
            }
        };
        drop(all);
        Some(Turn {
            silent: self,
            server,
            begun: Instant::now(),
            is_alone,
        })
    }
}

impl Turn<'_> {
    /// Notes what came of it.
    pub(crate) fn end(self, reply: &Reply) {
        let kind = match reply {
            Reply::Failure(failure) => Some(failure.kind),
            Reply::Answer(_) | Reply::Found(_) => None,
            // It was not asked.
            Reply::Missing(_) | Reply::TooLate => return,
        };
        let is_long = LONG <= self.begun.elapsed();
        let mut all = lock(&self.silent.0);
        match kind {
            Some(FailureKind::Limited) => {}
            Some(FailureKind::Unreachable) if is_long => {
                if all.len() < MOST {
                    all.entry(self.server.clone()).or_insert(false);
                }
            }
            _ => {
                all.remove(&self.server);
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_alone
            && let Some(is_asked) = lock(&self.silent.0).get_mut(&self.server)
        {
            *is_asked = false;
        }
    }
}

/// Returns what comes of a request that is not sent, since the server is silent.
pub(crate) fn unasked() -> Reply {
    Reply::Failure(Failure {
        kind: FailureKind::Unreachable,
        message: "the Infrastructure Manager does not answer: another request waits for it"
            .to_owned(),
        sent: Sent::No,
    })
}

#[cfg(test)]
mod tests;
