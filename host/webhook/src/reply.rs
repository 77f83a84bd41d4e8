//! What a request gets, and how it is sent.

use std::convert::Infallible;
use std::iter;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::json;

use crate::budget::Share;

/// An answer is sent in parts of this size, so that buffers on its way keep little of one that nobody reads.
const PART_BYTES: usize = 16 << 10;

/// What a request gets.
pub(crate) struct Reply {
    pub(crate) code: StatusCode,
    /// JSON.
    pub(crate) body: Vec<u8>,
}

/// The text of a reply, with its share of the budget.
struct Unsent {
    body: Vec<u8>,
    _share: Option<Share>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Reply {
    /// An error as the API server understands it: it passes the message of a Status on to the client, and no other text.
    pub(crate) fn status(code: StatusCode, reason: &str, message: &str) -> Self {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": code.as_u16(),
            "reason": reason,
            "message": message,
        });
        Self {
            code,
            body: body.to_string().into_bytes(),
        }
    }

    /// The response. It counts in the budget until the last part of it is written to the connection: a peer that does not read its
    /// answers would have us keep them all.
    pub(crate) fn send(self, mut share: Option<Share>) -> Response {
        let length = self.body.len();
        if let Some(share) = &mut share {
            share.answered(length);
        }
        let mut rest = Bytes::from_owner(Unsent {
            body: self.body,
            _share: share,
        });
        let body = match length <= PART_BYTES {
            true => Body::from(rest),
            false => Body::from_stream(stream::iter(iter::from_fn(move || {
                let part = rest.split_to(PART_BYTES.min(rest.len()));
                (!part.is_empty()).then_some(Ok::<_, Infallible>(part))
            }))),
        };
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (CONTENT_LENGTH, HeaderValue::from(length)),
        ];
        (self.code, headers, body).into_response()
    }
}
