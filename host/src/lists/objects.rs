//! A list, object by object.

use std::mem;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures::AsyncBufRead;
use futures::io::AsyncBufReadExt;
use tokio::time::timeout;

use super::{Page, Pages, Splitter, Trouble};
use crate::client::Streamed;

/// How long the API server may send nothing of an answer.
const SILENCE: Duration = Duration::from_secs(30);

/// Reads a list object by object. No more than one object and a few pieces of the answer are in memory.
pub(crate) struct Objects<'a> {
    pages: Pages<'a>,
    answer: Option<Answer>,
    /// How long answers were split since this was asked for.
    worked: Duration,
}

/// A page that arrives.
struct Answer {
    reader: Pin<Box<dyn AsyncBufRead + Send>>,
    splitter: Splitter,
}

impl<'a> Objects<'a> {
    pub(crate) fn of(pages: Pages<'a>) -> Self {
        Self {
            pages,
            answer: None,
            worked: Duration::ZERO,
        }
    }

    /// How much time it took to find the objects since this was last asked for, without waiting for them.
    pub(crate) fn worked(&mut self) -> Duration {
        mem::take(&mut self.worked)
    }

    /// The next object, as it was sent; none at the end. One that is too long is empty.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        loop {
            if self.answer.is_none() {
                if self.pages.is_done {
                    return Ok(None);
                }
                self.answer = Some(self.ask().await?);
            }
            let Some(answer) = &mut self.answer else {
                continue;
            };
            if let Some(object) = answer.next(&mut self.worked).await? {
                return Ok(Some(object));
            }
            let page: Page = serde_json::from_slice(&answer.splitter.frame)
                .map_err(|error| Trouble::Other(kube::Error::SerdeError(error)))?;
            self.answer = None;
            self.pages.turn(page.metadata);
        }
    }

    async fn ask(&mut self) -> Result<Answer, Trouble> {
        let mut request = self.pages.request()?;
        request.extensions_mut().insert(Streamed);
        let reader = self.pages.client.request_stream(request).await;
        Ok(Answer {
            reader: Box::pin(reader.map_err(Trouble::of)?),
            splitter: Splitter::default(),
        })
    }
}

impl Answer {
    /// The next object of the page; none at its end.
    async fn next(&mut self, worked: &mut Duration) -> Result<Option<Vec<u8>>, Trouble> {
        loop {
            let failed = |error: std::io::Error| Trouble::Other(kube::Error::ReadEvents(error));
            let piece = timeout(SILENCE, self.reader.fill_buf()).await;
            let piece = piece.map_err(|late| failed(late.into()))?.map_err(failed)?;
            if piece.is_empty() {
                return Ok(None);
            }
            let began = Instant::now();
            let (taken, object) = self.splitter.take(piece);
            *worked += began.elapsed();
            self.reader.consume_unpin(taken);
            if object.is_some() {
                return Ok(object);
            }
        }
    }
}
