//! The answers of one connection that its peer has not read to the end.
//!
//! A peer of HTTP/2 decides how much of an answer it takes, and may take nothing for ever while its connection is well. Nothing in hyper
//! ends that: it waits for room, and does not look at the clock.

use std::collections::BTreeMap;
use std::future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use podloom_turns::lock;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The answers of one connection that are not sent yet.
#[derive(Default)]
pub(super) struct Unread {
    answers: Mutex<Answers>,
    /// The first answer is there.
    begun: Notify,
}

#[derive(Default)]
struct Answers {
    /// By increasing numbers, so the first is the oldest.
    since: BTreeMap<u64, Instant>,
    next: u64,
}

impl Unread {
    /// Watches an answer, from now until its last byte was handed to the connection, or nobody wants it any more.
    pub(super) fn watch(self: &Arc<Self>, response: Response) -> Response<Watched> {
        let number = {
            let mut answers = self.answers();
            let number = answers.next;
            answers.next += 1;
            answers.since.insert(number, Instant::now());
            number
        };
        self.begun.notify_one();
        let answer = Arc::new(Answer {
            number,
            unread: Arc::clone(self),
        });
        response.map(|body| Watched { body, answer })
    }

    /// Waits until an answer was not read in time.
    pub(super) async fn overdue(&self, limit: Duration) {
        loop {
            let oldest = self.oldest();
            match oldest.map(|(number, since)| (number, since.checked_add(limit))) {
                None => self.begun.notified().await,
                Some((_, None)) => future::pending().await,
                Some((number, Some(end))) => {
                    sleep_until(end).await;
                    if self.oldest().is_some_and(|(oldest, _)| oldest == number) {
                        return;
                    }
                }
            }
        }
    }

    fn oldest(&self) -> Option<(u64, Instant)> {
        let answers = self.answers();
        let oldest = answers.since.first_key_value();
        oldest.map(|(number, since)| (*number, *since))
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        lock(&self.answers)
    }
}

/// An answer that is not sent yet. Each part of it that waits keeps this.
struct Answer {
    number: u64,
    unread: Arc<Unread>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.unread.answers().since.remove(&self.number);
    }
}

/// The body of an answer that is watched.
pub(super) struct Watched {
    body: Body,
    answer: Arc<Answer>,
}

/// A part of an answer, on its way.
struct Part {
    bytes: Bytes,
    _answer: Arc<Answer>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let answer = &self.answer;
        polled.map_ok(|frame| {
            frame.map_data(|bytes| {
                let _answer = Arc::clone(answer);
                Bytes::from_owner(Part { bytes, _answer })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
