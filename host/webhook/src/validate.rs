//! `/validate/<plural>`: checks objects of our kinds before they are stored.
//!
//! Only what can never serve is refused. Whatever is missing here, a cache, a chain or time, costs warnings and nothing else.

mod browsers;
mod cleaner;
mod infrastructure;
mod portal;

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use kube::core::ObjectMeta;
use podloom_controllers::{
    AdmissionCaches, BlockingThreads, CleanerValidator, Finding, Findings, Subject,
};
use podloom_mutation::PodMutator;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout_at;

use crate::PeerTurns;
use crate::metrics::Outcome;
use crate::mutate::Namespaces;
use crate::review::{Answer, Operation, ReviewRequest, Tenant};

/// Checks objects of our kinds.
pub struct ObjectWebhook {
    /// The chain, on which the pods of BrowserConfigs are tried.
    pub mutator: Arc<dyn PodMutator>,
    /// The namespaces, for plugins that ask.
    pub namespaces: Arc<dyn Namespaces>,
    /// The BrowserConfigs and TunnelClasses.
    pub caches: AdmissionCaches,
    /// Threads for large objects.
    pub blocking: BlockingThreads,
    /// The turns to use them.
    pub checks: PeerTurns,
    /// The turns to have an object's pods tried: the pods of few objects are in memory at once.
    pub tries: PeerTurns,
    /// The turns to pass the chain, which all that use the chain share.
    pub turns: PeerTurns,
    /// Compiles the conditions of Cleaners.
    pub cleaners: CleanerValidator,
}

/// How objects of one kind are checked, whatever their API group.
pub(crate) struct Row {
    /// The path, which ends in the plural of the kind.
    pub(crate) path: &'static str,
    /// The name of the endpoint in metrics.
    pub(crate) endpoint: &'static str,
    check: for<'a> fn(&'a ObjectWebhook, ReviewRequest, Instant) -> BoxFuture<'a, Answer>,
}

/// One row for each kind.
pub(crate) const ROWS: [Row; 10] = [
    Row {
        path: "/validate/browsers",
        endpoint: "validate/browsers",
        check: |webhook, review, deadline| Box::pin(webhook.browser(review, deadline)),
    },
    Row {
        path: "/validate/browserconfigs",
        endpoint: "validate/browserconfigs",
        check: |webhook, review, deadline| Box::pin(webhook.browser_config(review, deadline)),
    },
    Row {
        path: "/validate/portalexposes",
        endpoint: "validate/portalexposes",
        check: |webhook, review, deadline| Box::pin(webhook.portal_expose(review, deadline)),
    },
    Row {
        path: "/validate/tunnelclasses",
        endpoint: "validate/tunnelclasses",
        check: |webhook, review, deadline| Box::pin(webhook.tunnel_class(review, deadline)),
    },
    Row {
        path: "/validate/clusters",
        endpoint: "validate/clusters",
        check: |webhook, review, deadline| Box::pin(webhook.cluster(review, deadline)),
    },
    Row {
        path: "/validate/clouds",
        endpoint: "validate/clouds",
        check: |webhook, review, deadline| Box::pin(webhook.cloud(review, deadline)),
    },
    Row {
        path: "/validate/globalclouds",
        endpoint: "validate/globalclouds",
        check: |webhook, review, deadline| Box::pin(webhook.cloud(review, deadline)),
    },
    Row {
        path: "/validate/infrastructureproviders",
        endpoint: "validate/infrastructureproviders",
        check: |webhook, review, deadline| Box::pin(webhook.provider(review, deadline)),
    },
    Row {
        path: "/validate/globalinfrastructureproviders",
        endpoint: "validate/globalinfrastructureproviders",
        check: |webhook, review, deadline| Box::pin(webhook.provider(review, deadline)),
    },
    Row {
        path: "/validate/cleaners",
        endpoint: "validate/cleaners",
        check: |webhook, review, deadline| Box::pin(webhook.cleaner(review, deadline)),
    },
];

/// What is said if the deadline comes before the object is examined.
const TOO_LARGE: &str = "not checked: there was not enough time";

impl ObjectWebhook {
    /// Answers a review.
    pub(crate) async fn answer(
        &self,
        row: &Row,
        review: ReviewRequest,
        deadline: Instant,
    ) -> (Answer, Outcome) {
        let is_written = matches!(review.operation, Operation::Create | Operation::Update);
        if !is_written || !review.sub_resource.is_empty() {
            return (Answer::admitted(), Outcome::Skipped);
        }
        let answer = (row.check)(self, review, deadline).await;
        let outcome = match answer.denial {
            Some(_) => Outcome::Denied,
            None => Outcome::Admitted,
        };
        (answer, outcome)
    }

    /// Reads the object of a review and checks it, on a thread for large objects.
    async fn check<K: DeserializeOwned + Send + 'static>(
        &self,
        review: ReviewRequest,
        deadline: Instant,
        check: impl FnOnce(&Versions<K>) -> Findings + Send + 'static,
    ) -> Answer {
        let checked = self.run(review.tenant(), move || {
            let versions = Versions::read(review)?;
            let findings = check(&versions);
            Ok(versions.judge(findings))
        });
        match timeout_at(deadline.into(), checked).await {
            Ok(Some(Ok(findings))) => answer(findings),
            Ok(Some(Err(unreadable))) => unreadable,
            Ok(None) | Err(_) => overdue(),
        }
    }

    /// Runs work on a thread for large objects, when it is the turn of this tenant; none if too many wait.
    async fn run<T: Send + 'static>(
        &self,
        (peer, namespace): Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = self.checks.take(peer, namespace).await.ok()?;
        // The work goes on if nobody waits for it any more, and so does its turn.
        let work = move || {
            let done = work();
            drop(turn);
            done
        };
        Some(self.blocking.run(work).await)
    }
}

/// An object of a review, and what is stored of it.
struct Versions<K> {
    new: K,
    old: Option<K>,
    /// Whether something is stored that our types cannot hold: then nothing is known of its problems.
    old_is_unreadable: bool,
}

impl<K: DeserializeOwned> Versions<K> {
    /// Reads both. An object that our types cannot hold is one for the API server's schema.
    fn read(review: ReviewRequest) -> Result<Self, Answer> {
        let mut object = review.object;
        prune(&mut object);
        let metadata = object.get("metadata").cloned();
        let new = serde_json::from_value(object).map_err(|_| Answer {
            warnings: vec![unreadable(metadata)],
            ..Answer::admitted()
        })?;
        let has_old = review.operation == Operation::Update && !review.old_object.is_null();
        let old = has_old.then(|| {
            let mut object = review.old_object;
            prune(&mut object);
            serde_json::from_value(object).ok()
        });
        let old = old.flatten();
        Ok(Self {
            new,
            old_is_unreadable: has_old && old.is_none(),
            old,
        })
    }

    /// Makes warnings of refusals if what is stored may have the same problems.
    fn judge(&self, findings: Findings) -> Findings {
        match self.old_is_unreadable {
            true => findings.tolerated(),
            false => findings,
        }
    }
}

/// Which part of an object cannot be read. What the parser says would quote values of the object, which may be secret.
fn unreadable(metadata: Option<Value>) -> String {
    let metadata = metadata.map(serde_json::from_value::<ObjectMeta>);
    let part = match metadata {
        Some(Err(_)) => "metadata",
        None | Some(Ok(_)) => "spec",
    };
    format!("not checked, since {part} cannot be read: a field is missing or has the wrong type")
}

/// Removes what no check looks at, and what may be large or of another version.
fn prune(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.retain(|field, value| is_looked_at(field, value));
    }
}

/// Whether a check looks at a field of a status. One of another form than ours would make the whole object unreadable.
fn is_looked_at(field: &str, value: &Value) -> bool {
    match field {
        "podUID" => value.is_string(),
        "lastAppliedTosca" => value.is_object(),
        "retiredNodes" => {
            let names = value.as_array();
            names.is_some_and(|names| names.iter().all(Value::is_string))
        }
        _ => false,
    }
}

fn overdue() -> Answer {
    Answer {
        warnings: vec![TOO_LARGE.to_owned()],
        ..Answer::admitted()
    }
}

/// Refuses the object if there is a reason to.
fn answer(findings: Findings) -> Answer {
    let Findings { refusals, warnings } = findings;
    let warnings = warnings.iter().map(Finding::to_string).collect();
    let is_chain = |finding: &Finding| finding.subject == Subject::Chain;
    let texts: Vec<String> = refusals.iter().map(Finding::to_string).collect();
    let answer = match texts.join("; ") {
        message if message.is_empty() => Answer::admitted(),
        message if refusals.iter().all(is_chain) => Answer::forbidden(message),
        message => Answer::invalid(message),
    };
    Answer { warnings, ..answer }
}

#[cfg(test)]
mod tests;
