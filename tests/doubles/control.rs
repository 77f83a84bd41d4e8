//! The control endpoint of the doubles that have one.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Result;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::{TcpListener, TcpStream};

use crate::listen;

/// The maximum length of a request's body.
const LIMIT: usize = 1024 * 1024;

/// A double that can be queried and changed while it runs.
pub(crate) trait Steered: Send + Sync + 'static {
    /// Handles a request, and returns the body of the answer.
    fn steer(&self, method: &Method, path: &str, body: &[u8]) -> Result<String, ControlError>;
}

/// Why a request to the control endpoint failed.
pub(crate) enum ControlError {
    /// There is no such method and path.
    Unknown,
    /// The body is not valid.
    Body(String),
}

/// Serves the control endpoint.
pub(crate) async fn serve(listener: TcpListener, steered: Arc<impl Steered>) -> Result<()> {
    listen::accept(listener, move |stream| {
        connection(stream, Arc::clone(&steered))
    })
    .await
}

async fn connection(stream: TcpStream, steered: Arc<impl Steered>) {
    let service = service_fn(|request| answer(&*steered, request));
    // It fails if the client disconnects, which is not our error.
    let _gone = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    steered: &impl Steered,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let done = match Limited::new(body, LIMIT).collect().await {
        Ok(body) => steered.steer(&head.method, head.uri.path(), &body.to_bytes()),
        Err(error) => Err(ControlError::Body(error.to_string())),
    };
    let (status, text) = match done {
        Ok(text) => (StatusCode::OK, text),
        Err(ControlError::Body(why)) => (StatusCode::BAD_REQUEST, why),
        Err(ControlError::Unknown) => {
            let why = "unknown method or path; --help of this double lists them";
            (StatusCode::NOT_FOUND, why.to_owned())
        }
    };
    let mut answer = Response::new(Full::from(format!("{text}\n")));
    *answer.status_mut() = status;
    Ok(answer)
}

/// An answer in JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<String, ControlError> {
    serde_json::to_string_pretty(value).map_err(|error| ControlError::Body(error.to_string()))
}

/// The answer to a request that returns nothing.
pub(crate) fn done() -> Result<String, ControlError> {
    Ok("done".to_owned())
}

/// Reads a body in JSON.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ControlError> {
    serde_json::from_slice(body).map_err(|error| ControlError::Body(error.to_string()))
}
