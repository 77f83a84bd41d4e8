//! A bound on what travels back, whatever it is: chunks and answers before the answer can be endless without an end of the head or
//! a byte of the body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::Limits;

/// The smallest buffer that hyper works with, in bytes.
pub(super) const SMALLEST_BUFFER: usize = 8 * 1024;
/// How many bytes may travel back for each byte that an answer may have: a chunk of one byte takes six.
const TRAVEL: usize = 8;
/// What TLS may take on top of that for handshake, tickets and padding, in bytes.
const TLS: usize = 256 * 1024;

/// How many bytes may travel back, those included that are neither head nor body.
pub(super) fn travel(limits: &Limits) -> usize {
    let answer = limits.head_bytes.saturating_add(limits.answer_bytes);
    answer.max(SMALLEST_BUFFER).saturating_mul(TRAVEL)
}

/// How many bytes may come over the wire, where they may be encrypted.
pub(super) fn wire(limits: &Limits) -> usize {
    travel(limits).saturating_add(TLS)
}

/// What bytes go over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream that breaks once more has been read than is allowed.
pub(super) struct Metered<S> {
    stream: S,
    left: usize,
}

impl<S: Stream> Metered<S> {
    /// Lets through this many bytes.
    pub(super) fn new(stream: S, left: usize) -> Self {
        Self { stream, left }
    }
}

impl<S: Stream> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match self.left.checked_sub(buffer.filled().len() - before) {
            Some(left) => {
                self.left = left;
                read
            }
            None => Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into())),
        }
    }
}

impl<S: Stream> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
