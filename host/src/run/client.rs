//! The client of the API server: it notices connections that died, and every request of it ends.
//!
//! kube's own client has no deadline for an answer and no keepalive: on a connection that went silent it waits for minutes, or
//! for ever. This one is made of the same parts, with these between them:
//!
//! - A machine that went away is noticed by the kernel, by keepalive and a limit on what is not acknowledged.
//! - A server that keeps the socket open and says nothing is noticed by the deadline. Retries of 429 and 503 count towards it,
//!   and so does reading the answer. A watch has to answer within it too; then it may go on, and those who watch have a limit on
//!   silence of their own.
//! - A connection is kept for the next request for less time than the deadline. When a request has missed its deadline, all
//!   others that were idle as long are closed too, and the next request opens a new one.

use std::time::{Duration, Instant, SystemTime};

use axum::http::header::DATE;
use axum::http::{HeaderMap, Request, Response, Uri};
use futures::TryFutureExt;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body as HttpBody, Bytes};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::retry::{InvalidBackoff, RetryPolicy};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use podloom_controllers::Clock;
use tokio::time::timeout;
use tower::retry::RetryLayer;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use super::requests::Requests;

/// How long a connection may take until it is ready, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may take, retries and the body of the answer included; half of what the API server itself allows.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often a request is repeated after 429, 503 or 504, and how long that waits unless the API server says how long. After that
/// the last answer counts: a webhook may deny this way, and its reason has to reach the user. Controllers try again by themselves.
const RETRIES: u32 = 3;
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// How long a connection waits for its next request; less than [`DEADLINE`].
const IDLE: Duration = Duration::from_secs(10);
/// After how long without a byte the kernel asks whether the other end is there, how often, and how many times.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// How long what was sent may stay unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// The longest silence on a connection that is in use. Watches end long before; this ends those that nobody limits.
const SILENCE: Duration = Duration::from_secs(330);

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("proxies are not supported, and the API server is to be reached through {0}")]
    Proxy(Uri),
    #[error("the configuration of the cluster cannot be used")]
    Configure(#[from] kube::Error),
    #[error("requests cannot be repeated")]
    Retry(#[from] InvalidBackoff),
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} s, retries after 429 and 503 included", DEADLINE.as_secs())]
struct Unanswered;

/// Makes a client with connections of its own. It belongs to the runtime in which it is made.
///
/// Each answer sets the clock right.
pub(super) fn client(
    config: &Config,
    requests: &Requests,
    clock: &Clock,
) -> Result<Client, ClientError> {
    if let Some(proxy) = &config.proxy_url {
        return Err(ClientError::Proxy(proxy.clone()));
    }
    let connector = config.rustls_https_connector_with_connector(connector())?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_write_timeout(Some(DEADLINE));
    connector.set_read_timeout(Some(SILENCE));
    connector.set_reset_reader_on_write(true);
    let http = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build::<_, Body>(connector);
    let (requests, clock) = (requests.clone(), clock.clone());
    let send = service_fn(move |request: Request<Body>| {
        let (begun, clock, sent) = (requests.begin(&request), clock.clone(), Instant::now());
        http.request(request)
            .inspect_ok(move |response| {
                begun.answered(response.status());
                if let Some(date) = date(response.headers()) {
                    clock.heard(date, sent);
                }
            })
            .map_err(BoxError::from)
    });
    let retry = RetryPolicy::new(FIRST_RETRY, LONGEST_RETRY, RETRIES, true)?;
    let stack = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(RetryLayer::new(retry))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(send);
    let bounded = service_fn(move |request| in_time(stack.clone(), request));
    Ok(Client::new(bounded, config.default_namespace.clone()))
}

/// Opens connections that the kernel watches over.
fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    connector
}

/// Sends a request and returns its whole answer, or of a watch its beginning, within the deadline.
async fn in_time<S, B>(
    service: S,
    request: Request<Body>,
) -> Result<Response<Either<Full<Bytes>, B>>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let is_watch = is_watch(request.uri());
    let answered = async {
        let response = service.oneshot(request).await?;
        if is_watch && response.status().is_success() {
            return Ok(response.map(Either::Right));
        }
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        Ok(Response::from_parts(parts, Either::Left(Full::new(body))))
    };
    match timeout(DEADLINE, answered).await {
        Ok(answer) => answer,
        Err(_) => Err(Unanswered.into()),
    }
}

/// When an answer was made, by the clock of whoever made it.
fn date(headers: &HeaderMap) -> Option<SystemTime> {
    let date = headers.get(DATE)?.to_str().ok()?;
    httpdate::parse_http_date(date).ok()
}

fn is_watch(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| parameter.starts_with("watch="))
}

#[cfg(test)]
mod tests;
