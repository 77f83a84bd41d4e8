//! Sends pods to an API server. Nothing is created: this is the only place that sends them, and each request is a dry run.

use anyhow::anyhow;
use axum::http::header::{CONTENT_TYPE, WARNING};
use axum::http::{HeaderMap, Request, StatusCode};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use podloom_engine::plain::plain;
use podloom_syntax::names;

use super::answer::{Answer, NoAnswer, warning};
use super::submit::Submission;
use crate::error::{CommandError, quoted, shown};
use crate::lists;

/// How long an answer may be. An object of Kubernetes is at most half as long.
const LONGEST: usize = 4 << 20;

/// An API server, and how messages name it.
pub(super) struct Server {
    client: Client,
    name: String,
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
        })
    }

    /// Asks what becomes of a pod.
    pub(super) async fn ask(&self, submission: &Submission) -> Result<Answer, CommandError> {
        let failed = |why: String| {
            let said = format!("{}: {}: {why}", self.name, submission.name);
            CommandError::Other(anyhow!("{}", shown(&said)))
        };
        let request = request(submission).map_err(&failed)?;
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| failed(plain(&error)))?;
        let (parts, body) = answer.into_parts();
        let body = body.collect_bytes().await;
        let body = body.map_err(|error| failed(plain(&error)))?;
        if body.len() > LONGEST {
            return Err(failed(format!(
                "the answer has {} bytes, and only {LONGEST} are read",
                body.len()
            )));
        }
        if parts.status.is_success() {
            let pod = serde_json::from_slice(&body);
            let pod = pod.map_err(|error| failed(format!("the answer is no pod: {error}")))?;
            return Ok(Answer::accepted(pod, warnings(&parts.headers), submission));
        }
        let message = match serde_json::from_slice::<Status>(&body) {
            Ok(status) if !status.message.is_empty() => status.message,
            // A proxy may have answered.
            _ => String::from_utf8_lossy(&body).trim().to_owned(),
        };
        let answer = Answer::rejected(parts.status.as_u16(), &message, submission);
        answer.map_err(|why| failed(explained(&why, submission, parts.status, &message)))
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
    request.map_err(|error| format!("cannot be sent: {error}"))
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let headers = headers.get_all(WARNING).into_iter();
    let texts = headers.filter_map(|it| std::str::from_utf8(it.as_bytes()).ok());
    texts.filter_map(warning).collect()
}

/// What to do if an answer says nothing about the pod.
fn explained(why: &NoAnswer, to: &Submission, status: StatusCode, message: &str) -> String {
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
        NoAnswer::Other => format!("answers {status}: {message}"),
    }
}

#[cfg(test)]
mod tests;
