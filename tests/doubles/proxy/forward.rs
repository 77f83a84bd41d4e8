//! Handles one request: counts it, then forwards it or injects a fault.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::ConfigExt;
use podloom_tests::faults::Fault;
use podloom_tests::lock;
use tokio::sync::watch;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::Controls;
use super::changes::{Written, until_a_fault};
use super::name::{NamedRequest, Naming};

/// The server. It is called with the rights of each request, never with our own.
#[derive(Clone)]
pub(super) struct Upstream {
    client: BoxCloneSyncService<Request<Incoming>, Response<Incoming>, legacy::Error>,
    scheme: Scheme,
    authority: Authority,
    naming: Naming,
}

type ProxyAnswer = Response<Either<Incoming, Written>>;

impl Upstream {
    pub(super) fn new(config: &Config) -> io::Result<Self> {
        let connector = config.rustls_https_connector().map_err(io::Error::other)?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let missing = || io::Error::other("the kubeconfig has no server");
        Ok(Self {
            client: BoxCloneSyncService::new(client),
            scheme: config.cluster_url.scheme().cloned().ok_or_else(missing)?,
            authority: config
                .cluster_url
                .authority()
                .cloned()
                .ok_or_else(missing)?,
            naming: Naming::Kubernetes,
        })
    }

    /// An HTTP server without TLS. Each request gets a connection of its own, as if its client had opened it: a server that closes
    /// a connection while it is idle spoils no request.
    pub(super) fn http(server: SocketAddr) -> io::Result<Self> {
        let mut client = Client::builder(TokioExecutor::new());
        let client = client.pool_max_idle_per_host(0).build_http();
        Ok(Self {
            client: BoxCloneSyncService::new(client),
            scheme: Scheme::HTTP,
            authority: server.to_string().parse().map_err(io::Error::other)?,
            naming: Naming::Http,
        })
    }

    /// Answers a request; an error closes the connection.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        controls: &Arc<Controls>,
    ) -> io::Result<ProxyAnswer> {
        let named = NamedRequest::new(self.naming, request.method(), request.uri());
        let counted = controls.record.count(&named);
        // Subscribed before, so that no replacement after the choice of the fault is missed.
        let replaced = controls.replaced.subscribe();
        let uri = request.uri().clone();
        let fault = lock(&controls.rules).fault_for(&named, &uri);
        let answer = self.answer_with_fault(request, fault, replaced).await?;
        counted.answered(answer.status());
        // A watch has no length, but an error that answers it has one.
        let is_stream = answer.body().size_hint().exact().is_none();
        let lists_first = named.lists_first();
        let Some(change) = named.change().filter(|_| is_stream) else {
            return Ok(answer);
        };
        let controls = Arc::clone(controls);
        let fault = move || lock(&controls.rules).fault_for(&change, &uri);
        Ok(answer.map(|body| Either::Right(until_a_fault(body, lists_first, fault))))
    }

    async fn answer_with_fault(
        &self,
        request: Request<Incoming>,
        fault: Option<Fault>,
        mut replaced: watch::Receiver<()>,
    ) -> io::Result<ProxyAnswer> {
        match fault {
            None => self.forward(request).await,
            Some(Fault::Drop) => Err(injected()),
            Some(Fault::Cut) => {
                self.forward(request).await?;
                Err(injected())
            }
            Some(Fault::Stall) => pending().await,
            Some(Fault::Hold) => {
                let _proxy_ends = replaced.changed().await;
                self.forward(request).await
            }
            Some(Fault::Delay { seconds }) => {
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                self.forward(request).await
            }
            Some(Fault::Answer { status, body }) => own_answer(status, body),
        }
    }

    async fn forward(&self, mut request: Request<Incoming>) -> io::Result<ProxyAnswer> {
        let path = request.uri().path_and_query().cloned();
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        *request.uri_mut() = uri.build().map_err(io::Error::other)?;
        // The client then sets the API server's own host. Other servers make links with the host by which they were called.
        if matches!(self.naming, Naming::Kubernetes) {
            request.headers_mut().remove(HOST);
        }
        let answer = self.client.clone().oneshot(request).await;
        Ok(answer.map_err(io::Error::other)?.map(Either::Left))
    }
}

fn own_answer(status: u16, body: String) -> io::Result<ProxyAnswer> {
    let kind = match body.starts_with('{') {
        true => "application/json",
        false => "text/plain; charset=utf-8",
    };
    let body = Full::from(body).map_err(|never| match never {});
    let mut answer = Response::new(Either::Right(body.boxed_unsync()));
    *answer.status_mut() = status.try_into().map_err(io::Error::other)?;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(answer)
}

pub(super) fn injected() -> io::Error {
    io::Error::other("an injected fault")
}
