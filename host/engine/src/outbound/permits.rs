//! Limits on concurrent requests, of a client and to one host.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use podloom_turns::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{ConcurrencyLimit, RequestErrorKind};
use super::url::{Host, Origin};

/// The permits of one client.
pub(super) struct RequestPermits {
    client: Arc<Semaphore>,
    hosts: KeyedSemaphores<(Host, u16)>,
    limits: RequestLimits,
}

impl RequestPermits {
    pub(super) fn new(limits: &RequestLimits) -> Self {
        Self {
            client: Arc::new(Semaphore::new(limits.concurrency.into())),
            hosts: KeyedSemaphores::new(limits.concurrency_per_host.into()),
            limits: limits.clone(),
        }
    }

    /// Acquires the permits of the host and of the client; they are returned when they are dropped. That of the host is first, so that
    /// a request which waits for a slow host holds none of the client's.
    pub(super) async fn acquire(
        &self,
        origin: &Origin,
    ) -> Result<[OwnedSemaphorePermit; 2], RequestErrorKind> {
        let mut awaited = ConcurrencyLimit::Host;
        let both = async {
            let host = self.hosts.of(origin.host_and_port());
            let host = host.acquire_owned().await;
            awaited = ConcurrencyLimit::Client;
            (host, self.client.clone().acquire_owned().await)
        };
        let waited = self.limits.permit_timeout;
        match timeout(waited, both).await {
            Ok((Ok(host), Ok(client))) => Ok([host, client]),
            _ => Err(RequestErrorKind::Busy {
                limit: awaited,
                max: match awaited {
                    ConcurrencyLimit::Client => self.limits.concurrency,
                    _ => self.limits.concurrency_per_host,
                },
                waited,
            }),
        }
    }
}

/// The limits of a client. What exceeds one of them fails with a [`RequestErrorKind`](super::RequestErrorKind) that names it.
#[derive(Clone, Debug)]
pub struct RequestLimits {
    /// How long a request waits for a permit, and then as long again until its name can be looked up, before
    /// [`RequestLimits::total_timeout`] starts. With zero it fails at once if there is no room.
    pub permit_timeout: Duration,
    /// How long the DNS lookup, the connection and the TLS handshake may take together.
    pub connect_timeout: Duration,
    /// How long a request may take from its permit to the last byte of the response, connecting included.
    pub total_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub request_bytes: usize,
    /// The largest head of a response, status line included, in bytes. A response has at most 100 headers in any case, and a limit
    /// below 8 KiB is only checked once the head has ended.
    pub head_bytes: usize,
    /// The largest body of a response, in bytes.
    pub response_bytes: usize,
    /// How many requests run at once.
    pub concurrency: u16,
    /// How many of them go to one host, that is to one host name or address and port. Several names of one machine count as several
    /// hosts.
    pub concurrency_per_host: u16,
}

// One semaphore for each key: each host, or each tenant.

/// Semaphores with the same number of permits, one for each key.
pub(super) struct KeyedSemaphores<K> {
    permits: usize,
    /// Those in use. Others are dropped at the next request for a new key.
    semaphores: Mutex<HashMap<K, Weak<Semaphore>>>,
}

impl<K: Eq + Hash> KeyedSemaphores<K> {
    /// Returns semaphores of so many permits for each key.
    pub(super) fn new(permits: usize) -> Self {
        Self {
            permits,
            semaphores: Mutex::default(),
        }
    }

    /// Returns the semaphore of a key. It is kept for as long as a permit of it, or what is returned, is held.
    pub(super) fn of(&self, key: K) -> Arc<Semaphore> {
        let mut semaphores = lock(&self.semaphores);
        if let Some(semaphore) = semaphores.get(&key).and_then(Weak::upgrade) {
            return semaphore;
        }
        semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.permits));
        semaphores.insert(key, Arc::downgrade(&semaphore));
        semaphore
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.semaphores.lock().unwrap().len()
    }
}

#[cfg(test)]
mod tests;
