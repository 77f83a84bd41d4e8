//! `podloom-doubles sink`: an HTTP server that accepts and records every request.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use podloom_tests::doubles::{ReceivedRequest, ReceivedRequests, Reply};
use podloom_tests::lock;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::control::{self, ControlError, Steered};
use crate::listen;

/// How many requests are kept; the oldest are dropped first.
const KEPT: usize = 1000;
/// How many bytes of a body are kept.
const KEPT_BODY: usize = 64 * 1024;
/// The maximum length of a body.
const LONGEST_BODY: usize = 16 * 1024 * 1024;
/// How long a request's head may take.
const HEAD: Duration = Duration::from_secs(30);

/// An HTTP server that accepts and records every request, and answers as configured.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: SinkOptions,
}

/// The options of a sink, with TLS or without.
#[derive(Args)]
pub(crate) struct SinkOptions {
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    pub(crate) listen: SocketAddr,
    /// The address of the control endpoint: GET /requests, DELETE /requests, PUT /reply.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    pub(crate) control: SocketAddr,
    /// The status of its answers.
    #[arg(long, value_name = "CODE", default_value_t = 200)]
    status: u16,
    /// The body of its answers.
    #[arg(long, value_name = "TEXT", default_value = "")]
    body: String,
    /// How long to wait before answering, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    delay: f64,
}

const EXAMPLES: &str = r#"Examples:
  # An overloaded receiver of events: it answers 503 after two seconds
  podloom-doubles sink --listen 127.0.0.1:8080 --control 127.0.0.1:9000 --status 503 --delay 2
  curl localhost:8080/events --data '{"type": "started"}'

  # The requests so far, as JSON: the last 1,000, with the first 64 KiB of each body
  curl localhost:9000/requests

  # Ask clients to come back in a minute; then leave them without an answer
  curl -X PUT localhost:9000/reply --data '{"status": 503, "headers": {"retry-after": "60"}}'
  curl -X PUT localhost:9000/reply --data '{"lost": true}'

  # Answer 200 from now on, and forget the requests so far
  curl -X PUT localhost:9000/reply --data '{"status": 200, "body": "ok"}'
  curl -X DELETE localhost:9000/requests"#;

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    let sink = SinkServer::new(options)?;
    let (listener, control) = (
        listen::bind(options.listen).await?,
        listen::bind(options.control).await?,
    );
    listen::ready(&listener, Some(&control))?;
    let served = Arc::clone(&sink);
    tokio::try_join!(
        listen::accept(listener, move |stream| Arc::clone(&served).serve(stream)),
        control::serve(control, sink),
    )?;
    Ok(())
}

/// A sink: its answer, and the requests that it received.
pub(crate) struct SinkServer {
    reply: Mutex<Reply>,
    count: Mutex<u64>,
    requests: Mutex<VecDeque<ReceivedRequest>>,
}

impl SinkServer {
    pub(crate) fn new(options: &SinkOptions) -> Result<Arc<Self>> {
        let reply = Reply {
            status: options.status,
            body: options.body.clone(),
            delay: options.delay,
            ..Reply::default()
        };
        let reply = reply.checked().map_err(anyhow::Error::msg)?;
        Ok(Arc::new(Self {
            reply: Mutex::new(reply),
            count: Mutex::default(),
            requests: Mutex::default(),
        }))
    }

    /// Serves a connection.
    pub(crate) async fn serve<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request| self.answer(request));
        // It fails if the client disconnects, which is not our error.
        let _gone = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, LONGEST_BODY).collect().await else {
            let mut too_large = Response::default();
            *too_large.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            return Ok(too_large);
        };
        self.record(&head, &body.to_bytes());
        let reply = lock(&self.reply).clone();
        tokio::time::sleep(Duration::from_secs_f64(reply.delay)).await;
        if reply.lost {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let is_json = reply.body.starts_with(['{', '[']);
        let mut answer = Response::new(Full::from(reply.body));
        // `Reply::checked` has checked the status.
        *answer.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
        if is_json {
            let json = HeaderValue::from_static("application/json");
            answer.headers_mut().insert(CONTENT_TYPE, json);
        }
        for (name, value) in &reply.headers {
            // `Reply::checked` has checked them.
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                answer.headers_mut().insert(name, value);
            }
        }
        Ok(answer)
    }

    fn record(&self, head: &Parts, body: &[u8]) {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter();
        let recorded = ReceivedRequest {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            headers: headers
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
            body: String::from_utf8_lossy(body.get(..KEPT_BODY).unwrap_or(body)).into_owned(),
            length: body.len(),
        };
        *lock(&self.count) += 1;
        let mut requests = lock(&self.requests);
        if requests.len() == KEPT {
            requests.pop_front();
        }
        requests.push_back(recorded);
    }
}

impl Steered for SinkServer {
    fn steer(&self, method: &Method, path: &str, body: &[u8]) -> Result<String, ControlError> {
        match (method, path) {
            (&Method::GET, "/requests") => control::json(&ReceivedRequests {
                count: *lock(&self.count),
                requests: lock(&self.requests).iter().cloned().collect(),
            }),
            (&Method::DELETE, "/requests") => {
                *lock(&self.count) = 0;
                lock(&self.requests).clear();
                control::done()
            }
            (&Method::PUT, "/reply") => {
                let reply: Reply = control::read(body)?;
                *lock(&self.reply) = reply.checked().map_err(ControlError::Body)?;
                control::done()
            }
            _ => Err(ControlError::Unknown),
        }
    }
}
