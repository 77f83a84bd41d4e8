//! `podloom-doubles lag`: a proxy in front of etcd that can hold back what watches tell.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use clap::Args;
use futures::{Stream, stream};
use http::{Method, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Either, StreamBody};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http2::{self as client, SendRequest};
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use podloom_tests::lock;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::BoxError;

use crate::control::{self, ControlError, Steered};
use crate::listen;

/// The request that opens a stream of watches.
const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// How much may be on its way on one connection. Watches that are held back must leave room for answers.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// A proxy in front of etcd that can hold back what watches tell, kind by kind. Everything else passes.
///
/// An API server behind it answers all requests, but what it caches of a kind that is held back gets old.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The address of etcd, without TLS.
    #[arg(long, value_name = "ADDR")]
    to: SocketAddr,
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// The address of the control endpoint: POST /hold and /release, each with one of etcd's keys.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    control: SocketAddr,
}

const EXAMPLES: &str = r#"Examples:
  podloom-doubles lag --to 127.0.0.1:2379 --control 127.0.0.1:9000

  # Tell nothing new about pods
  curl -X POST localhost:9000/hold --data /registry/pods/

  # Tell all that was held back, and what comes next
  curl -X POST localhost:9000/release --data /registry/pods/"#;

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let lag = Arc::new(LagServer {
        etcd: arguments.to,
        held: watch::Sender::default(),
    });
    let listener = listen::bind(arguments.listen).await?;
    let control = listen::bind(arguments.control).await?;
    listen::ready(&listener, Some(&control))?;
    let served = Arc::clone(&lag);
    tokio::try_join!(
        listen::accept(listener, move |stream| Arc::clone(&served).serve(stream)),
        control::serve(control, lag),
    )?;
    Ok(())
}

struct LagServer {
    etcd: SocketAddr,
    /// The keys of what is held back.
    held: watch::Sender<BTreeSet<String>>,
}

/// What a client sent on a stream of watches: the keys are in it.
type Asked = Arc<Mutex<Vec<u8>>>;

impl LagServer {
    /// Each connection gets one of its own to etcd.
    async fn serve(self: Arc<Self>, front: TcpStream) {
        let Ok(back) = TcpStream::connect(self.etcd).await else {
            return;
        };
        let mut etcd = client::Builder::new(TokioExecutor::new());
        etcd.initial_connection_window_size(CONNECTION_WINDOW);
        let Ok((requests, connection)) = etcd.handshake(TokioIo::new(back)).await else {
            return;
        };
        let service = service_fn(|request| Arc::clone(&self).forward(requests.clone(), request));
        let serving = server::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(front), service);
        // Either side may close it.
        tokio::select! {
            _ = serving => {}
            _ = connection => {}
        }
    }

    async fn forward(
        self: Arc<Self>,
        mut etcd: SendRequest<Either<Incoming, NotedBody>>,
        request: Request<Incoming>,
    ) -> hyper::Result<Response<impl Body<Data = Bytes, Error = BoxError>>> {
        if request.uri().path() != WATCH {
            let answer = etcd.send_request(request.map(Either::Left)).await?;
            return Ok(answer.map(Either::Left));
        }
        let asked = Asked::default();
        let noted = request.map(|body| Either::Right(noting(body, Arc::clone(&asked))));
        let answer = etcd.send_request(noted).await?;
        let held = self.held.subscribe();
        Ok(answer.map(|body| Either::Right(StreamBody::new(gated(body, asked, held)))))
    }
}

type NotedBody = BoxBody<Bytes, hyper::Error>;

/// Notes the keys that are asked for.
fn noting(body: Incoming, asked: Asked) -> NotedBody {
    body.map_frame(move |frame| {
        if let Some(sent) = frame.data_ref()
            && contains(sent, "/registry/")
        {
            lock(&asked).extend_from_slice(sent);
        }
        frame
    })
    .boxed()
}

/// Lets a frame pass only while none of the stream's keys is held back.
fn gated(
    body: Incoming,
    asked: Asked,
    held: watch::Receiver<BTreeSet<String>>,
) -> impl Stream<Item = hyper::Result<Frame<Bytes>>> {
    stream::unfold(
        (body, asked, held),
        |(mut body, asked, mut held)| async move {
            let frame = body.frame().await?;
            let is_free = |held: &BTreeSet<String>| {
                let asked = lock(&asked);
                !held.iter().any(|key| contains(&asked, key))
            };
            // It fails only when the double ends.
            drop(held.wait_for(is_free).await);
            Some((frame, (body, asked, held)))
        },
    )
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

impl Steered for LagServer {
    fn steer(&self, method: &Method, path: &str, body: &[u8]) -> Result<String, ControlError> {
        let key = String::from_utf8_lossy(body).into_owned();
        match (method, path) {
            (&Method::POST, "/hold") => self.held.send_modify(|held| held.extend([key])),
            (&Method::POST, "/release") => {
                self.held.send_modify(|held| held.retain(|it| *it != key))
            }
            _ => return Err(ControlError::Unknown),
        }
        control::done()
    }
}
