//! The client of the API server. It detects dead connections, and every request ends by a deadline.
//!
//! kube's own client has neither a deadline for answers nor keepalive, so on a dead connection it waits for minutes or for ever.
//! This client is built from the same parts and adds:
//!
//! - TCP keepalive and a limit on unacknowledged data: with them the kernel detects that the other machine is gone.
//! - A deadline for each request, for a server that keeps the socket open but sends nothing. It includes retries after 429, 503 and
//!   504, and reading the answer. A watch must start within it; after that the controllers limit its silence themselves. The same
//!   holds for lists that are read object by object, whose readers limit it.
//! - Proxies, as kubectl finds them ([`podloom_engine::outbound`]).
//! - An idle timeout shorter than the deadline. So when a request misses its deadline, all connections that were idle as long are
//!   closed as well, and the next request opens a new one.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use axum::http::header::DATE;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use futures::TryFutureExt;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body as HttpBody, Bytes};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use podloom_engine::clock::Clock;
use podloom_engine::outbound::{Proxies, Proxy, Scheme};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::retry::{Policy, RetryLayer};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

/// How long opening a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may take, including retries and reading the answer. The API server itself allows twice as much.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often a request is retried after 429, 503 or 504, and how long to wait before it if the API server names no time. Then the
/// last answer is returned: a webhook may reject with these codes, and its reason must reach the user. Controllers retry by themselves.
const RETRIES: u32 = 3;
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// How long an idle connection is kept open; less than [`DEADLINE`].
const IDLE: Duration = Duration::from_secs(10);
/// TCP keepalive: time without data until the first probe, time between probes, and number of probes.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// How long sent data may stay unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// How long a connection in use may be silent. The watches of the controllers end earlier; this limits all others.
const SILENCE: Duration = Duration::from_secs(330);
/// What may name the proxy.
const PROXY: &str = "HTTPS_PROXY, HTTP_PROXY or proxy-url of the kubeconfig";

const UNUSABLE: &str = "the cluster configuration is unusable";

/// Marks a request whose answer is read piece by piece, so it is passed on as it arrives.
#[derive(Clone, Copy)]
pub(crate) struct Streamed;

/// Marks a request that is not retried: its sender has other work to do first.
#[derive(Clone, Copy)]
pub(crate) struct Once;

/// Retries all requests but those.
#[derive(Clone)]
struct Retries(RetryPolicy);

impl<R> Policy<Request<Body>, Response<R>, BoxError> for Retries {
    type Future = <RetryPolicy as Policy<Request<Body>, Response<R>, BoxError>>::Future;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<R>, BoxError>,
    ) -> Option<Self::Future> {
        self.0.retry(request, result)
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        if request.extensions().get::<Once>().is_some() {
            return None;
        }
        Policy::<_, Response<R>, BoxError>::clone_request(&mut self.0, request)
    }
}

/// A request missed its deadline.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} s, including retries after 429, 503 and 504", DEADLINE.as_secs())]
struct Unanswered;

/// Creates a client for a command, which needs no measurements.
pub(crate) fn of_command(config: &Config) -> anyhow::Result<Client> {
    client(config, &Requests::default(), &Clock::new())
}

/// Creates a client with connections of its own. It works only in the runtime that it was created in.
///
/// Each answer corrects the clock.
pub(crate) fn client(
    config: &Config,
    requests: &Requests,
    clock: &Clock,
) -> anyhow::Result<Client> {
    let proxy = config.proxy_url.as_ref().map(ToString::to_string);
    let proxy = proxy.map(|url| Proxy::new(&url, PROXY)).transpose()?;
    let dial = service_fn(move |server: Uri| dial(connector(), proxy.clone(), server));
    let connector = config.rustls_https_connector_with_connector(dial);
    let connector = connector.context(UNUSABLE)?;
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
        let (pending, clock, sent) = (requests.begin(&request), clock.clone(), Instant::now());
        http.request(request)
            .inspect_ok(move |response| {
                pending.answered(response.status());
                // An error may come from a proxy, whose clock is its own.
                let is_heard = !response.status().is_server_error();
                if let Some(date) = date(response.headers()).filter(|_| is_heard) {
                    clock.heard(date, sent);
                }
            })
            .map_err(BoxError::from)
    });
    let retry = RetryPolicy::new(FIRST_RETRY, LONGEST_RETRY, RETRIES, true)
        .context("the retry policy is invalid")?;
    let stack = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(RetryLayer::new(Retries(retry)))
        .option_layer(config.auth_layer().context(UNUSABLE)?)
        .layer(config.extra_headers_layer().context(UNUSABLE)?)
        .service(send);
    let bounded = service_fn(move |request| in_time(stack.clone(), request));
    Ok(Client::new(bounded, config.default_namespace.clone()))
}

/// Connects to the API server, perhaps through a proxy.
async fn dial(
    connector: HttpConnector,
    proxy: Option<Proxy>,
    server: Uri,
) -> Result<TokioIo<TcpStream>, BoxError> {
    let Some(proxy) = proxy else {
        return Ok(connector.oneshot(server).await?);
    };
    let host = server.host().unwrap_or_default();
    let port = server.port_u16().unwrap_or(scheme(&server).port());
    let target = Authority::try_from(format!("{host}:{port}"))?;
    Ok(proxy.connect(connector, target).await?)
}

fn scheme(server: &Uri) -> Scheme {
    match server.scheme_str() {
        Some("http") => Scheme::Http,
        _ => Scheme::Https,
    }
}

/// Finds the cluster: that of a context of the kubeconfig. Without a name, it is that of the current context, else that of our own pod.
/// The proxy is that of the kubeconfig, else that of the environment.
pub(crate) async fn cluster(context: Option<&str>) -> anyhow::Result<Config> {
    let mut config = match context {
        Some(context) => of_context(context).await?,
        None => Config::infer().await.context(
            "found no cluster: there is no readable kubeconfig (KUBECONFIG or ~/.kube/config), and this is not a pod of a cluster",
        )?,
    };
    if !names_proxy(context) {
        let server = &config.cluster_url;
        let scheme = scheme(server);
        let host = server.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = server.port_u16().unwrap_or(scheme.port());
        let proxies = Proxies::from_env();
        let proxy = proxies.of(scheme, host, port, None)?;
        config.proxy_url = proxy.map(|proxy| proxy.url().clone());
    }
    Ok(config)
}

async fn of_context(name: &str) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read().context(
        "cannot read the kubeconfig (KUBECONFIG or ~/.kube/config), of which a context is named",
    )?;
    let names = kubeconfig.contexts.iter().map(|it| it.name.as_str());
    let names: Vec<&str> = names.collect();
    if !names.contains(&name) {
        let names = names.join(", ");
        anyhow::bail!("the kubeconfig has no context {name}; it has: {names}");
    }
    let options = KubeConfigOptions {
        context: Some(name.to_owned()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.with_context(|| format!("the context {name} of the kubeconfig is unusable"))
}

/// The name of the kubeconfig's current context.
pub(crate) fn current_context() -> Option<String> {
    Kubeconfig::read().ok()?.current_context
}

/// Whether a context of the kubeconfig, by default the current one, has `proxy-url`. kube's `Config` does not show it: it also takes a
/// proxy of the environment, without `NO_PROXY`.
fn names_proxy(context: Option<&str>) -> bool {
    let found = || {
        let kubeconfig = Kubeconfig::read().ok()?;
        let name = context.or(kubeconfig.current_context.as_deref())?;
        let mut contexts = kubeconfig.contexts.iter();
        let context = contexts.find(|it| it.name == name)?.context.as_ref()?;
        let mut clusters = kubeconfig.clusters.iter();
        let cluster = clusters.find(|it| it.name == context.cluster)?;
        cluster.cluster.as_ref()?.proxy_url.clone()
    };
    found().is_some_and(|url| !url.is_empty())
}

/// Opens connections with keepalive and a limit on unacknowledged data.
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

/// Sends a request and reads its whole answer before the deadline. For a watch, or if the answer is read piece by piece, only the
/// headers.
async fn in_time<S, B>(
    service: S,
    request: Request<Body>,
) -> Result<Response<Either<Full<Bytes>, B>>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let is_streamed = is_watch(request.uri()) || request.extensions().get::<Streamed>().is_some();
    let answered = async {
        let response = service.oneshot(request).await?;
        if is_streamed && response.status().is_success() {
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

/// The date header of an answer: the server's time.
fn date(headers: &HeaderMap) -> Option<SystemTime> {
    let date = headers.get(DATE)?.to_str().ok()?;
    httpdate::parse_http_date(date).ok()
}

fn is_watch(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| parameter.starts_with("watch="))
}

/// Counts the requests of all clients to the API server, and notices answers that may mean a missing kind or right; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    total: Family<Labels, Counter>,
    /// How many answers may mean a missing kind or right. Preflight waits for it to grow.
    access_failures: watch::Sender<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    verb: &'static str,
    /// The status code of an answer, or none.
    code: Cow<'static, str>,
}

/// A request without an answer so far. It is counted when it is answered or dropped.
pub(crate) struct PendingRequest {
    requests: Requests,
    labels: Labels,
}

impl Requests {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let requests = Self::default();
        registry.register(
            "api_requests",
            "Requests to the API server by verb and status code, each retry counted; code is none for a request without an answer",
            requests.total.clone(),
        );
        requests
    }

    /// Starts to count a request that is sent now.
    pub(crate) fn begin<B>(&self, request: &Request<B>) -> PendingRequest {
        PendingRequest {
            requests: self.clone(),
            labels: Labels {
                verb: verb(request),
                code: "none".into(),
            },
        }
    }

    /// Changes with each answer from now on that may mean a missing kind or right.
    pub(crate) fn access_failures(&self) -> watch::Receiver<u64> {
        self.access_failures.subscribe()
    }
}

impl PendingRequest {
    pub(crate) fn answered(mut self, code: StatusCode) {
        self.labels.code = code.as_str().to_owned().into();
        if is_access_failure(self.labels.verb, code) {
            let failures = &self.requests.access_failures;
            failures.send_modify(|failures| *failures += 1);
        }
    }
}

/// Whether an answer may mean a missing kind or right.
fn is_access_failure(verb: &str, code: StatusCode) -> bool {
    match code {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => true,
        // The start of a watch expired, or the API server is overloaded: neither says anything about kinds or rights.
        StatusCode::GONE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => false,
        // Kubernetes 1.33 and earlier do not let a watch begin with a list.
        StatusCode::UNPROCESSABLE_ENTITY if verb == "watch" => false,
        // A single object may be missing, that is normal. A list or watch fails only if something is wrong with its kind: it is not
        // served, its conversion fails, or it has another scope.
        _ => matches!(verb, "list" | "watch") && (code.is_client_error() || code.is_server_error()),
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.requests.total.get_or_create(&self.labels).inc();
    }
}

/// The Kubernetes verb of a request. kube notes on each request which of its methods created it; other requests get the verb of their
/// HTTP method.
fn verb<B>(request: &Request<B>) -> &'static str {
    let name = request.extensions().get::<&'static str>();
    let method = name.and_then(|name| name.split('_').next());
    match (method, request.method()) {
        (Some("list"), _) => "list",
        (Some("watch"), _) => "watch",
        (_, &Method::GET) => "get",
        (_, &Method::POST) => "create",
        (_, &Method::PUT) => "update",
        (_, &Method::PATCH) => "patch",
        (_, &Method::DELETE) => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests;
