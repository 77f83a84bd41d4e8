//! Limits on concurrent requests, of a client and to one host.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{ConcurrencyLimit, RequestErrorKind};
use super::keyed::KeyedSemaphores;
use super::limits::RequestLimits;
use super::url::{Host, Origin};

/// The permits of one client.
pub(super) struct RequestPermits {
    client: Arc<Semaphore>,
    hosts: KeyedSemaphores<(Host, u16)>,
    concurrency: u16,
    concurrency_per_host: u16,
    timeout: Duration,
}

/// The permit of one request; it is returned when this is dropped.
pub(super) struct RequestPermit {
    _host: OwnedSemaphorePermit,
    _client: OwnedSemaphorePermit,
}

impl RequestPermits {
    pub(super) fn new(limits: &RequestLimits) -> Self {
        Self {
            client: Arc::new(Semaphore::new(limits.concurrency.into())),
            hosts: KeyedSemaphores::new(limits.concurrency_per_host.into()),
            concurrency: limits.concurrency,
            concurrency_per_host: limits.concurrency_per_host,
            timeout: limits.permit_timeout,
        }
    }

    /// Acquires a permit: first that of the host, so that a request which waits for a slow host holds none of the client's.
    pub(super) async fn acquire(&self, origin: &Origin) -> Result<RequestPermit, RequestErrorKind> {
        let mut awaited = ConcurrencyLimit::Host;
        let both = async {
            let host = self.hosts.of(origin.host_and_port());
            let host = host.acquire_owned().await;
            awaited = ConcurrencyLimit::Client;
            (host, self.client.clone().acquire_owned().await)
        };
        let acquired = timeout(self.timeout, both).await;
        match acquired {
            Ok((Ok(host), Ok(client))) => Ok(RequestPermit {
                _host: host,
                _client: client,
            }),
            _ => Err(RequestErrorKind::Busy {
                limit: awaited,
                max: match awaited {
                    ConcurrencyLimit::Client => self.concurrency,
                    ConcurrencyLimit::Host | ConcurrencyLimit::Lookups => self.concurrency_per_host,
                },
                waited: self.timeout,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
