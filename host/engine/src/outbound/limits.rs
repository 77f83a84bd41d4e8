//! Timeouts, sizes and concurrency of requests.

use std::time::Duration;

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
