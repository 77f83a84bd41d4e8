//! Sends pods to an API server. Nothing is created: this is the only place that sends them, and each request is a dry run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use axum::http::header::{CONTENT_TYPE, WARNING};
use axum::http::response::Parts;
use axum::http::{HeaderMap, Request};
use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use podloom_engine::plain::plain;
use podloom_syntax::names;
use tokio::time::timeout;

use super::answer::{Answer, NoAnswer, warning};
use super::submit::Submission;
use crate::client::Streamed;
use crate::error::{CommandError, quoted, shown};
use crate::lists;

/// How long an answer may be. An object of Kubernetes is at most half as long.
const LONGEST: usize = 4 << 20;

/// How long one may take: the API server itself allows a minute.
const TIMEOUT: Duration = Duration::from_secs(70);

/// An API server, and how messages name it.
pub(super) struct Server {
    client: Client,
    name: String,
    has_answered: AtomicBool,
}

impl Server {
    /// That of a context of the kubeconfig, by default the current one. Nothing is sent yet.
    pub(super) async fn connect(context: Option<&str>) -> Result<Self, CommandError> {
        Ok(Self {
            client: lists::connect_to(context).await?,
            name: match context {
                Some(context) => format!("the API server of context {context}"),
                None => "the API server".to_owned(),
            },
            has_answered: AtomicBool::default(),
        })
    }

    /// Asks what becomes of a pod.
    pub(super) async fn ask(&self, submission: &Submission) -> Result<Answer, CommandError> {
        let failed = |why: String| {
            let said = format!("{}: {}: {why}", self.name, submission.name);
            CommandError::Other(anyhow!("{}", shown(&said)))
        };
        let request = request(submission).map_err(&failed)?;
        // One that does not answer at all is an error; later, that may be what is asked about.
        let unanswered = |why: String| match self.has_answered.load(Ordering::Relaxed) {
            true => Ok(Answer::unanswered(&why)),
            false => Err(failed(why)),
        };
        let (parts, body) = match timeout(TIMEOUT, self.sent(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return unanswered(why),
            Err(_) => return unanswered(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        if parts.status.is_success() {
            self.has_answered.store(true, Ordering::Relaxed);
            let pod = serde_json::from_slice(&body);
            let pod = pod.map_err(|error| failed(format!("the answer is no pod: {error}")))?;
            return Ok(Answer::accepted(pod, warnings(&parts.headers), submission));
        }
        let message = match serde_json::from_slice::<Status>(&body) {
            Ok(status) if !status.message.is_empty() => status.message,
            // A proxy may have answered.
            _ => String::from_utf8_lossy(&body).trim().to_owned(),
        };
        match Answer::rejected(parts.status.as_u16(), &message, submission) {
            Ok(answer) => {
                self.has_answered.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            Err(NoAnswer::Other) => unanswered(format!("answers {}: {message}", parts.status)),
            Err(why) => Err(failed(explained(&why, submission, &message))),
        }
    }

    /// Sends a request, and reads no more of the answer than an answer may have.
    async fn sent(&self, request: Request<Body>) -> Result<(Parts, Bytes), String> {
        let answer = self.client.send(request).await;
        let (parts, body) = answer.map_err(|error| plain(&error))?.into_parts();
        let body = Limited::new(body, LONGEST).collect().await;
        let body = body.map_err(|error| {
            format!("its answer breaks off, or is longer than {LONGEST} bytes: {error}")
        })?;
        Ok((parts, body.to_bytes()))
    }
}

/// The request that creates a pod, as a dry run.
fn request(submission: &Submission) -> Result<Request<Body>, String> {
    let Submission {
        namespace,
        user,
        pod,
        ..
    } = submission;
    // It may come from a file of somebody else, and must not change what is asked.
    if names::dns_label(namespace).is_err() {
        let namespace = quoted(namespace);
        return Err(format!("{namespace} cannot be the name of a namespace"));
    }
    let mut request = Request::post(format!(
        "/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Ignore"
    ));
    request = request.header(CONTENT_TYPE, "application/json");
    if let Some(user) = user {
        request = request.header("Impersonate-User", user);
    }
    let request = request.body(Body::from(pod.to_string().into_bytes()));
    let mut request = request.map_err(|error| format!("cannot be sent: {error}"))?;
    request.extensions_mut().insert(Streamed);
    Ok(request)
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let headers = headers.get_all(WARNING).into_iter();
    let texts = headers.filter_map(|it| std::str::from_utf8(it.as_bytes()).ok());
    texts.filter_map(warning).collect()
}

/// What to do if an answer says nothing about the pod.
fn explained(why: &NoAnswer, to: &Submission, message: &str) -> String {
    let namespace = &to.namespace;
    match why {
        NoAnswer::NoNamespace => format!(
            "there is no namespace {namespace}: create it, or name another one for all pods with --into"
        ),
        NoAnswer::Forbidden => match &to.user {
            Some(user) if message.contains("impersonate") => {
                format!("you may not send it as {user}: {message}")
            }
            _ => format!("a dry run needs the same rights as creating the pod: {message}"),
        },
        NoAnswer::RefusesDryRun(webhook) => format!(
            "webhook {webhook} refuses dry runs, so nobody knows what it does to pods: if it has no side effects, write sideEffects: None into its configuration"
        ),
        NoAnswer::Other => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
