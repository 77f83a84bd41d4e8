//! What a request may take.

use std::time::Duration;

/// The limits of a client. Each of them ends in a [`Failure`](super::Failure) that names it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a request waits for a place, on top of [`Limits::total`]; zero fails at once where there is none.
    pub wait: Duration,
    /// How long resolving, connecting and setting up TLS may take together, once there is a place.
    pub connect: Duration,
    /// How long a request may take from when it has its place to the last byte of the answer, connecting included.
    pub total: Duration,
    /// The largest body of a request, in bytes.
    pub request_bytes: usize,
    /// The largest head of an answer, status line included, in bytes. An answer has at most 100 headers in any case, and what is
    /// smaller than 8 KiB is only looked at once the head has ended.
    pub head_bytes: usize,
    /// The largest body of an answer, in bytes.
    pub answer_bytes: usize,
    /// How many requests go on at once.
    pub at_once: u16,
    /// How many of them go to one host, that is to one host name or address and port. Whoever owns several names of a machine has
    /// places for each.
    pub at_once_per_host: u16,
}
