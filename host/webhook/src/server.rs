//! The endpoints: which path answers what, and what is refused before anybody looks at the object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::time::timeout_at;

use crate::budget::{BODY_BYTES, Budget};
use crate::deadline;
use crate::metrics::{Endpoint, Outcome, WebhookMetrics};
use crate::mutate::PodWebhook;
use crate::review::{self, Answer, ReviewRequest};
use crate::unavailable::Unavailable;
use crate::validate::{self, ObjectWebhook, Row};

const ENDPOINTS: &str = "\
POST /mutate/pods               passes new pods through the plugin chain
POST /validate/browsers         checks Browsers
POST /validate/browserconfigs   checks BrowserConfigs, and tries their pods on the plugin chain
";

/// How long a client may take to send its body. The API server sends it at once.
const BODY_TIME: Duration = Duration::from_secs(5);
/// When a client that was refused for lack of memory may ask again, in seconds.
const AGAIN: &str = "1";

/// Everything that answers reviews.
pub struct Webhook {
    /// Answers for pods.
    pub pods: PodWebhook,
    /// Answers for objects of our kinds.
    pub objects: ObjectWebhook,
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
    #[error("the body could not be read: {0}")]
    Unreadable(axum::Error),
    #[error(transparent)]
    NoReview(#[from] review::ReviewError),
}

/// All endpoints.
pub fn router(webhook: Webhook) -> Router {
    let app = App {
        webhook,
        budget: Budget::default(),
    };
    let mut routes = Router::new().route("/mutate/pods", post(mutate_pods));
    for row in &validate::ROWS {
        let validate = move |State(app): State<Arc<App>>, request: Request| async move {
            validate_object(&app, row, request).await
        };
        routes = routes.route(row.path, post(validate));
    }
    routes
        .fallback(async |uri: Uri| {
            let text = format!("{} not found; the endpoints are\n\n{ENDPOINTS}", uri.path());
            (StatusCode::NOT_FOUND, text)
        })
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            let text = format!(
                "{} does not allow {method}; the endpoints are\n\n{ENDPOINTS}",
                uri.path()
            );
            (StatusCode::METHOD_NOT_ALLOWED, text)
        })
        .with_state(Arc::new(app))
}

async fn mutate_pods(State(app): State<Arc<App>>, request: Request) -> Response {
    let App { webhook, .. } = &*app;
    respond(
        &app,
        Endpoint::MutatePods,
        request,
        async |review, deadline| {
            webhook
                .pods
                .answer(review, deadline, &webhook.metrics)
                .await
        },
    )
    .await
}

async fn validate_object(app: &App, row: &'static Row, request: Request) -> Response {
    let objects = &app.webhook.objects;
    respond(
        app,
        Endpoint::Validate(row.endpoint),
        request,
        async |review, deadline| Ok(objects.answer(row, review, deadline).await),
    )
    .await
}

/// Reads a review, has it answered, and counts it.
async fn respond(
    app: &App,
    endpoint: Endpoint,
    request: Request,
    answer: impl AsyncFnOnce(ReviewRequest, Instant) -> Result<(Answer, Outcome), Unavailable>,
) -> Response {
    let arrived = Instant::now();
    let deadline = deadline::of(request.uri().query(), arrived);
    let (outcome, response) = match app.budget.take(content_length(request.headers())) {
        None => unavailable(&Unavailable::Full),
        Some(_held) => match read(request.into_body(), deadline).await {
            Err(error) => bad_request(&error),
            Ok(review) => {
                let uid = review.uid.clone();
                match answer(review, deadline).await {
                    Ok((answer, outcome)) => (outcome, write(&answer, &uid)),
                    Err(error) => unavailable(&error),
                }
            }
        },
    };
    app.webhook
        .metrics
        .answered(endpoint, outcome, arrived.elapsed());
    response
}

async fn read(body: Body, deadline: Instant) -> Result<ReviewRequest, BadRequest> {
    let end = deadline.min(Instant::now() + BODY_TIME);
    let body: Bytes = match timeout_at(end.into(), to_bytes(body, BODY_BYTES)).await {
        Err(_) => return Err(BadRequest::TooSlow),
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let is_limit = std::error::Error::source(&error)
                .is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
            return Err(if is_limit {
                BadRequest::TooLong
            } else {
                BadRequest::Unreadable(error)
            });
        }
    };
    Ok(review::parse(&body)?)
}

/// The length that the client announces; none if it announces none.
fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn write(answer: &Answer, uid: &str) -> Response {
    match answer.body(uid) {
        Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn bad_request(error: &BadRequest) -> (Outcome, Response) {
    let status = match error {
        BadRequest::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
        BadRequest::TooSlow => StatusCode::REQUEST_TIMEOUT,
        BadRequest::Unreadable(_) | BadRequest::NoReview(_) => StatusCode::BAD_REQUEST,
    };
    (
        Outcome::Malformed,
        (status, format!("{error}\n")).into_response(),
    )
}

fn unavailable(error: &Unavailable) -> (Outcome, Response) {
    let body = (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"));
    match error {
        // The API server asks again as long as its own time lasts. Any other error it would only report later, and without its text.
        Unavailable::Full => (
            Outcome::Full,
            ([(RETRY_AFTER, AGAIN)], body).into_response(),
        ),
        Unavailable::Busy => (Outcome::Busy, body.into_response()),
        Unavailable::NoChain(_) => (Outcome::NoChain, body.into_response()),
    }
}

#[cfg(test)]
mod tests;
