//! Handles one request: counts it, then forwards it or injects a fault.

use std::future::pending;
use std::io;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::ConfigExt;
use podloom_tests::faults::Fault;
use podloom_tests::lock;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::{Controls, NamedRequest};

/// The API server. It is called with the rights of each request, never with our own.
#[derive(Clone)]
pub(super) struct Upstream {
    client: BoxCloneSyncService<Request<Incoming>, Response<Incoming>, legacy::Error>,
    scheme: Scheme,
    authority: Authority,
}

type ProxyAnswer = Response<Either<Incoming, Full<Bytes>>>;

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
        })
    }

    /// Answers a request; an error closes the connection.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        controls: &Controls,
    ) -> io::Result<ProxyAnswer> {
        let named = NamedRequest::new(request.method(), request.uri());
        let counted = controls.count(&named);
        let fault = lock(&controls.rules).fault_for(&named, request.uri());
        let answer = self.answer_with_fault(request, fault).await?;
        counted.answered(answer.status());
        Ok(answer)
    }

    async fn answer_with_fault(
        &self,
        request: Request<Incoming>,
        fault: Option<Fault>,
    ) -> io::Result<ProxyAnswer> {
        match fault {
            None => self.forward(request).await,
            Some(Fault::Drop) => Err(injected()),
            Some(Fault::Cut) => {
                self.forward(request).await?;
                Err(injected())
            }
            Some(Fault::Stall) => pending().await,
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
        // The client sets the API server's own host.
        request.headers_mut().remove(HOST);
        let answer = self.client.clone().oneshot(request).await;
        Ok(answer.map_err(io::Error::other)?.map(Either::Left))
    }
}

fn own_answer(status: u16, body: String) -> io::Result<ProxyAnswer> {
    let kind = match body.starts_with('{') {
        true => "application/json",
        false => "text/plain; charset=utf-8",
    };
    let mut answer = Response::new(Either::Right(Full::from(body)));
    *answer.status_mut() = status.try_into().map_err(io::Error::other)?;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(answer)
}

fn injected() -> io::Error {
    io::Error::other("an injected fault")
}
