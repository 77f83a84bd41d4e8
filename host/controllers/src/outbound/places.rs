//! How many requests go on at once, in all and to one host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{Failure, Scope};
use super::limits::Limits;
use super::url::{Host, Origin};

/// The places of one client.
pub(super) struct Places {
    all: Arc<Semaphore>,
    /// Those of hosts that requests go to or wait for; others are gone by the next request to a new host.
    hosts: Mutex<HashMap<(Host, u16), Weak<Semaphore>>>,
    at_once: u16,
    at_once_per_host: u16,
    wait: Duration,
}

/// The place of one request, until it is dropped.
pub(super) struct Place {
    _host: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            all: Arc::new(Semaphore::new(limits.at_once.into())),
            hosts: Mutex::default(),
            at_once: limits.at_once,
            at_once_per_host: limits.at_once_per_host,
            wait: limits.wait,
        }
    }

    /// Takes a place. Who waits for a slow host takes none of the places that are there for all.
    pub(super) async fn take(&self, origin: &Origin) -> Result<Place, Failure> {
        let mut short = Scope::Host;
        let both = async {
            let host = self.host(origin).acquire_owned().await;
            short = Scope::All;
            (host, self.all.clone().acquire_owned().await)
        };
        let taken = timeout(self.wait, both).await;
        match taken {
            Ok((Ok(host), Ok(all))) => Ok(Place {
                _host: host,
                _all: all,
            }),
            _ => Err(Failure::Busy {
                limit: match short {
                    Scope::All => self.at_once,
                    Scope::Host => self.at_once_per_host,
                },
                scope: short,
                waited: self.wait,
            }),
        }
    }

    fn host(&self, origin: &Origin) -> Arc<Semaphore> {
        let origin = origin.place();
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(&origin).and_then(Weak::upgrade) {
            return host;
        }
        hosts.retain(|_, host| host.strong_count() > 0);
        let host = Arc::new(Semaphore::new(self.at_once_per_host.into()));
        hosts.insert(origin, Arc::downgrade(&host));
        host
    }
}

#[cfg(test)]
mod tests;
