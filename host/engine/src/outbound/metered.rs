//! A limit on all bytes that a server sends: chunk framing and informational responses (1xx) can be endless without ever completing
//! the head or adding a byte to the body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::RequestLimits;

/// The smallest buffer that hyper accepts, in bytes.
pub(super) const SMALLEST_BUFFER: usize = 8 * 1024;
/// How many bytes may be received for each byte that a response may have: a chunk of one byte takes six.
const FRAMING: usize = 8;
/// How many more bytes TLS may take for handshake, session tickets and padding.
const TLS: usize = 256 * 1024;

/// How many bytes of HTTP may be received, framing included.
pub(super) fn http_limit(limits: &RequestLimits) -> usize {
    let answer = limits.head_bytes.saturating_add(limits.response_bytes);
    answer.max(SMALLEST_BUFFER).saturating_mul(FRAMING)
}

/// How many bytes may be received from the connection, TLS included.
pub(super) fn wire_limit(limits: &RequestLimits) -> usize {
    http_limit(limits).saturating_add(TLS)
}

/// A connection, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream whose reads fail once too many bytes were read.
pub(super) struct Metered<S> {
    stream: S,
    left: usize,
}

impl<S: Stream> Metered<S> {
    /// Returns the stream with a limit on how many bytes can be read.
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
