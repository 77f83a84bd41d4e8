//! The changes that a watch shows, one by one.

use std::error::Error;
use std::io;

use futures::{AsyncBufReadExt, TryStreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use podloom_tests::faults::Fault;

use super::forward::injected;

/// A body that we write ourselves.
pub(super) type Written = UnsyncBoxBody<Bytes, io::Error>;

/// How the line of a bookmark begins. It shows no change, and nobody knows when it comes.
const BOOKMARK: &str = r#"{"type":"BOOKMARK""#;

/// What the bookmark has that ends the list with which a watch may begin.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// The body of a watch, whose lines are changes once its list is complete, up to the first change for which there is a fault.
pub(super) fn until_a_fault<B>(
    body: B,
    lists_first: bool,
    fault: impl FnMut() -> Option<Fault> + Send + 'static,
) -> Written
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let bytes = body.into_data_stream().map_err(io::Error::other);
    let lines = bytes.into_async_read().lines();
    let begin = (Some(lines), lists_first, fault);
    let written = stream::try_unfold(begin, async |(lines, is_list, mut fault)| {
        let Some(mut lines) = lines else {
            return Ok(None);
        };
        let Some(line) = lines.try_next().await? else {
            return Ok(None);
        };
        let is_change = !is_list && !line.starts_with(BOOKMARK);
        let is_list = is_list && !(line.starts_with(BOOKMARK) && line.contains(END_OF_LIST));
        let (line, rest) = match is_change.then(&mut fault).flatten() {
            None => (line, Some(lines)),
            Some(Fault::Answer { body, .. }) => (body, None),
            Some(_) => return Err(injected()),
        };
        let line = Frame::data(Bytes::from(line + "\n"));
        Ok(Some((line, (rest, is_list, fault))))
    });
    StreamBody::new(written).boxed_unsync()
}
