//! A bound on what travels back, whatever it is: chunks and answers before the answer can be endless without an end of the head or
//! a byte of the body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connect::Stream;

/// A stream that breaks once more has been read than is allowed.
pub(super) struct Metered {
    stream: Box<dyn Stream>,
    left: usize,
}

impl Metered {
    /// Lets through this many bytes.
    pub(super) fn new(stream: Box<dyn Stream>, left: usize) -> Self {
        Self { stream, left }
    }
}

impl AsyncRead for Metered {
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

impl AsyncWrite for Metered {
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
