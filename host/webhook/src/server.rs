//! The endpoints: which path answers what, and what is refused before anybody looks at the object.

use std::convert::Infallible;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::{FutureExt, stream};
use http_body_util::BodyExt;
use podloom_engine::TRACES;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::timeout_at;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::budget::{BODY_BYTES, Budget, Share, parsed};
use crate::metrics::{MUTATE_PODS, Outcome, REVIEW_WORKLOADS, WebhookMetrics};
use crate::mutate::{PodWebhook, is_for_chain};
use crate::review::{Answer, Outline, ReviewError, ReviewRequest, Unavailable};
use crate::validate::{Check, ObjectWebhook};
use crate::workloads::WorkloadWebhook;
use crate::{review, validate};

const ENDPOINTS: &str = "\
POST /mutate/pods                              passes new pods, and changes of pods, through the plugin chain
POST /mutate/browsers                          checks Browsers, and gives new ones their finalizer and labels
POST /review/workloads                         says which pods of a workload the plugin chain will deny
POST /validate/browsers                        checks Browsers
POST /validate/browserconfigs                  checks BrowserConfigs, and tries their pods on the plugin chain
POST /validate/portalexposes                   checks PortalExposes
POST /validate/tunnelclasses                   checks TunnelClasses
POST /validate/clusters                        checks Clusters and their templates
POST /validate/clouds                          checks Clouds
POST /validate/globalclouds                    checks GlobalClouds
POST /validate/infrastructureproviders         checks InfrastructureProviders
POST /validate/globalinfrastructureproviders   checks GlobalInfrastructureProviders
POST /validate/cleaners                        checks Cleaners and compiles their conditions
";

/// How long a client may take to send its body. The API server sends it at once.
const BODY_TIME: Duration = Duration::from_secs(5);
/// An answer is sent in parts of this size, so that buffers on its way keep little of one that nobody reads.
const PART_BYTES: usize = 16 << 10;
/// What the API server waits if a webhook configuration does not say how long.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time that a webhook configuration can say.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest one.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);
/// How much of the time is kept: the API server's clock began before it connected, and it rounds up to whole seconds. Of a short time
/// it is half.
const RESERVE: Duration = Duration::from_secs(1);

/// Everything that answers reviews.
pub struct Webhook {
    /// Answers for pods.
    pub pods: PodWebhook,
    /// Answers for objects of our kinds.
    pub objects: ObjectWebhook,
    /// Answers for workloads.
    pub workloads: WorkloadWebhook,
    /// The metrics.
    pub metrics: WebhookMetrics,
}

/// What the handlers share.
struct App {
    webhook: Webhook,
    budget: Budget,
}

/// Why a request is not looked at.
#[derive(Debug, thiserror::Error)]
enum BadRequest {
    #[error("the body is longer than {} MiB", BODY_BYTES >> 20)]
    TooLong,
    #[error("the body did not arrive in time")]
    TooSlow,
    #[error(
        "the objects in the review would take more memory than one review may; make them smaller"
    )]
    TooLarge,
    #[error("the reviews of this namespace take more memory now than one review may; try again")]
    TooMany,
    #[error("the body could not be read: {0}")]
    Unreadable(axum::Error),
    #[error(transparent)]
    NoReview(#[from] ReviewError),
    #[error("too many requests at once; try again")]
    NoRoom,
}

/// All endpoints.
pub fn router(webhook: Webhook) -> Router {
    let app = App {
        webhook,
        budget: Budget::default(),
    };
    let mut routes = Router::new().route("/mutate/pods", post(mutate_pods));
    routes = routes.route("/review/workloads", post(review_workloads));
    for (endpoint, check) in validate::ROWS {
        let validate = move |State(app): State<Arc<App>>, request: Request| async move {
            validate_object(app, (endpoint, check), request).await
        };
        routes = routes.route(&format!("/{endpoint}"), post(validate));
    }
    // Without the path of the request: a client that never reads its answers would have us keep it.
    routes
        .fallback(async || {
            let text = format!("not found; the endpoints are\n\n{ENDPOINTS}");
            (StatusCode::NOT_FOUND, text)
        })
        .method_not_allowed_fallback(async || {
            let text = format!("this method is not allowed; the endpoints are\n\n{ENDPOINTS}");
            (StatusCode::METHOD_NOT_ALLOWED, text)
        })
        .with_state(Arc::new(app))
}

async fn mutate_pods(State(app): State<Arc<App>>, request: Request) -> Response {
    to_the_end(async move {
        let App { webhook, .. } = &*app;
        let answer = async |review, deadline| {
            let pods = &webhook.pods;
            pods.answer(review, deadline, &webhook.metrics).await
        };
        respond(&app, MUTATE_PODS, request, answer).await
    })
    .await
}

async fn review_workloads(State(app): State<Arc<App>>, request: Request) -> Response {
    to_the_end(async move {
        let workloads = &app.webhook.workloads;
        let answer = async |review, deadline| workloads.answer(review, deadline).await;
        respond(&app, REVIEW_WORKLOADS, request, answer).await
    })
    .await
}

async fn validate_object(
    app: Arc<App>,
    (endpoint, check): (&'static str, Check),
    request: Request,
) -> Response {
    to_the_end(async move {
        let objects = &app.webhook.objects;
        let answer = async |review, deadline| Ok(objects.answer(check, review, deadline).await);
        respond(&app, endpoint, request, answer).await
    })
    .await
}

/// Answers even if the client goes away: its handler is dropped then, but what a plugin still uses for it must stay counted.
async fn to_the_end(answer: impl Future<Output = Response> + Send + 'static) -> Response {
    let answer = AssertUnwindSafe(answer).catch_unwind();
    match Unfinished::of(answer).await {
        Ok(response) => response,
        Err(_) => {
            // The panic has printed its message.
            tracing::error!("the webhook panicked, which is a bug of podloom");
            let text = "the webhook panicked, which is a bug of podloom";
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            Reply::status(code, "InternalError", text).send(None)
        }
    }
}

/// Work that goes on in a task of its own if nobody waits for it any more. Most is done by then, and needs no task: a switch to one
/// and back costs more than a fast plugin.
struct Unfinished<F: Future<Output: Send> + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output: Send> + Send> Unfinished<F> {
    fn of(work: F) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<F: Future<Output: Send> + Send> Future for Unfinished<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = &mut self.0 else {
            // Nobody polls what is done.
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send> Drop for Unfinished<F> {
    fn drop(&mut self) {
        // Without a runtime, the process ends.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

/// Reads a review, has it answered, and counts it.
async fn respond(
    app: &App,
    endpoint: &'static str,
    request: Request,
    answer: impl AsyncFnOnce(ReviewRequest, Instant) -> Result<(Answer, Outcome), Unavailable>,
) -> Response {
    // Of tokio's clock, which tests can move.
    let arrived = tokio::time::Instant::now().into_std();
    let version = request.version();
    let deadline = deadline(request.uri().query(), arrived);
    let peer = peer(&request);
    let mut share = app.budget.begin(peer);
    let mut text = Vec::new();
    let (outcome, reply) = match &mut share {
        None => unavailable(&Unavailable::Full),
        Some(share) => match read(request.into_body(), deadline, share, &mut text).await {
            Err(error) => refused(endpoint, &error, &text),
            Ok(mut review) => {
                drop(text);
                review.peer = Some(peer);
                let (uid, step) = (review.uid.clone(), traced(endpoint, &review));
                let answered = answer(review, deadline).instrument(step.clone()).await;
                let (outcome, reply) = match answered {
                    Ok((answer, outcome)) => (outcome, write(&answer, &uid)),
                    Err(error) => unavailable(&error),
                };
                step.record("outcome", outcome.as_str());
                (outcome, reply)
            }
        },
    };
    app.webhook
        .metrics
        .answered(endpoint, outcome, version, arrived.elapsed());
    reply.send(share)
}

/// The outermost step of a review, in traces.
fn traced(endpoint: &'static str, review: &ReviewRequest) -> Span {
    tracing::trace_span!(
        target: TRACES,
        "review",
        trace = review.uid,
        endpoint,
        namespace = review.namespace,
        outcome = Empty
    )
}

/// Returns when a request that arrived now must be answered. The API server writes its timeout into the query: `?timeout=5s`.
fn deadline(query: Option<&str>, arrived: Instant) -> Instant {
    let timeout = query
        .unwrap_or_default()
        .split('&')
        .find_map(|pair| seconds(pair.strip_prefix("timeout=")?))
        .unwrap_or(DEFAULT_TIMEOUT)
        .clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
    arrived + (timeout - (timeout / 2).min(RESERVE))
}

/// Reads `5s` or `1.5s`; whatever else a client writes counts as absent.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|timeout| !timeout.is_zero())
}

/// The client. The listener notes its address.
fn peer(request: &Request) -> IpAddr {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| network(peer.0.ip()))
}

/// The peer of an address: the address itself, or its /64 network for IPv6, since one machine often owns a whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

async fn read(
    body: Body,
    deadline: Instant,
    share: &mut Share,
    text: &mut Vec<u8>,
) -> Result<ReviewRequest, BadRequest> {
    let end = deadline.min(tokio::time::Instant::now().into_std() + BODY_TIME);
    let collected = timeout_at(end.into(), collect(body, share, text)).await;
    collected.unwrap_or(Err(BadRequest::TooSlow))?;
    let text = str::from_utf8(text).map_err(ReviewError::NotText)?;
    let weight = parsed(text.as_bytes());
    if share.is_too_much(weight) {
        return Err(BadRequest::TooLarge);
    }
    if !share.parse(review::namespace(text)?, weight) {
        return Err(match share.is_tenants(weight) {
            true => BadRequest::TooMany,
            false => BadRequest::NoRoom,
        });
    }
    Ok(review::parse(text)?)
}

async fn collect(mut body: Body, share: &mut Share, text: &mut Vec<u8>) -> Result<(), BadRequest> {
    while let Some(frame) = body.frame().await {
        // Trailers are of no use.
        let Ok(part) = frame.map_err(BadRequest::Unreadable)?.into_data() else {
            continue;
        };
        let (fits, rest) = part.split_at(part.len().min(BODY_BYTES - text.len()));
        if !share.arrived(fits.len()) {
            return Err(BadRequest::NoRoom);
        }
        text.extend_from_slice(fits);
        if !rest.is_empty() {
            return Err(BadRequest::TooLong);
        }
    }
    Ok(())
}

fn write(answer: &Answer, uid: &str) -> Reply {
    match answer.body(uid) {
        Ok(body) => Reply::new(StatusCode::OK, body),
        Err(error) => {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            Reply::status(code, "InternalError", &error.to_string())
        }
    }
}

/// Answers a request that could not be read. A pod is denied if the reason is its own size, depth or bytes, or the size of what its
/// namespace sends at the same time: with failurePolicy Ignore, it would pass without plugins.
fn refused(endpoint: &'static str, error: &BadRequest, text: &[u8]) -> (Outcome, Reply) {
    let is_its_own = match error {
        BadRequest::TooLong | BadRequest::TooLarge | BadRequest::TooMany => true,
        // If its outline can be read, it is JSON that is nested too deep.
        BadRequest::NoReview(ReviewError::Malformed(error)) => error.is_syntax(),
        // If its outline can be read, its object has bytes that no text has.
        BadRequest::NoReview(ReviewError::NotText(_)) => true,
        _ => false,
    };
    let is_its_own = is_its_own && endpoint == MUTATE_PODS;
    let outline = is_its_own.then(|| review::outline(text)).flatten();
    let pod = outline.filter(|it| is_for_chain(&it.kind, it.operation, &it.sub_resource));
    match pod.as_ref().and_then(Outline::uid) {
        Some(uid) => {
            let message = format!("the pod cannot pass the plugin chain: {error}");
            let (outcome, answer) = match error {
                BadRequest::TooMany => (Outcome::Full, Answer::crowded(message)),
                _ => (Outcome::Denied, Answer::invalid(message)),
            };
            (outcome, write(&answer, uid))
        }
        None => bad_request(error),
    }
}

fn bad_request(error: &BadRequest) -> (Outcome, Reply) {
    let (code, reason) = match error {
        BadRequest::TooLong | BadRequest::TooLarge => {
            (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge")
        }
        BadRequest::TooSlow => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
        BadRequest::Unreadable(_) | BadRequest::NoReview(_) => {
            (StatusCode::BAD_REQUEST, "BadRequest")
        }
        BadRequest::TooMany | BadRequest::NoRoom => return unavailable(&Unavailable::Full),
    };
    let reply = Reply::status(code, reason, &error.to_string());
    (Outcome::Malformed, reply)
}

/// Never with a Retry-After: the API server would ask again until its time is over, and then report only that.
fn unavailable(error: &Unavailable) -> (Outcome, Reply) {
    let outcome = match error {
        Unavailable::Full => Outcome::Full,
        Unavailable::Busy => Outcome::Busy,
        Unavailable::NoChain(_) => Outcome::NoChain,
        Unavailable::Namespace(_) => Outcome::NoNamespace,
        Unavailable::Owner(_) => Outcome::NoOwner,
    };
    let code = StatusCode::SERVICE_UNAVAILABLE;
    let reply = Reply::status(code, "ServiceUnavailable", &error.to_string());
    (outcome, reply)
}

/// What a request gets, with its share of the budget.
struct Reply {
    code: StatusCode,
    /// JSON.
    body: Vec<u8>,
    share: Option<Share>,
}

impl AsRef<[u8]> for Reply {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Reply {
    fn new(code: StatusCode, body: Vec<u8>) -> Self {
        let share = None;
        Self { code, body, share }
    }

    /// An error as the API server understands it: it passes the message of a Status on to the client, and no other text.
    fn status(code: StatusCode, reason: &str, message: &str) -> Self {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": code.as_u16(),
            "reason": reason,
            "message": message,
        });
        Self::new(code, body.to_string().into_bytes())
    }

    /// The response. It counts in the budget until the last part of it is written to the connection: a peer that does not read its
    /// answers would have us keep them all.
    fn send(mut self, share: Option<Share>) -> Response {
        let (code, length) = (self.code, self.body.len());
        self.share = share;
        if let Some(share) = &mut self.share {
            share.answered(length);
        }
        let mut rest = Bytes::from_owner(self);
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
        (code, headers, body).into_response()
    }
}

#[cfg(test)]
mod tests;
