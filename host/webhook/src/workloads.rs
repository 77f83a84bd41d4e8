//! `/review/workloads`: says of a workload, when it is created or its pod template changes, what the chain will deny to its pods.
//!
//! kubectl shows that at once. Otherwise it is only in an Event of a ReplicaSet. Nothing is stored.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use podloom_mutation::{PodMutator, PodRejection, PodRequest, Severity, remarks_of};
use serde_json::Value;
use tokio::time::timeout_at;

use crate::PeerTurns;
use crate::metrics::Outcome;
use crate::mutate::Namespaces;
use crate::review::{Answer, Operation, ReviewRequest, Unavailable};

/// How many templates of one object are looked at.
const TEMPLATES: usize = 8;

/// A pod template of an object.
pub struct Template {
    /// Where it is, such as `spec.template`.
    pub field: String,
    /// Its pod, as the API server would receive it.
    pub pod: Value,
    /// What plugins can read about it.
    pub request: PodRequest,
}

/// Finds the pod templates of an object, by its apiVersion, kind and namespace: no more than so many.
pub type FindTemplates =
    Arc<dyn Fn((&str, &str, &str), &Value, usize) -> Vec<Template> + Send + Sync>;

/// What happens to a workload whose pods would be denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadMode {
    /// Its author is warned.
    Warn,
    /// It is denied.
    Deny,
}

/// Tries the pods of workloads.
pub struct WorkloadWebhook {
    /// The chain.
    pub mutator: Arc<dyn PodMutator>,
    /// The namespaces, for plugins that ask.
    pub namespaces: Arc<dyn Namespaces>,
    /// Finds the templates.
    pub templates: FindTemplates,
    /// What happens if a pod would be denied.
    pub mode: WorkloadMode,
    /// The turns to have an object's pods tried: the pods of few objects are in memory at once.
    pub tries: PeerTurns,
    /// The turns to pass the chain, which all that use the chain share.
    pub turns: PeerTurns,
}

impl WorkloadWebhook {
    /// Answers a review. What cannot be tried is admitted, with nothing to say: its pods are reviewed anyway.
    pub(crate) async fn answer(
        &self,
        review: ReviewRequest,
        deadline: Instant,
    ) -> Result<(Answer, Outcome), Unavailable> {
        let is_written = matches!(review.operation, Operation::Create | Operation::Update);
        if !is_written || !review.sub_resource.is_empty() || is_owned(&review.object) {
            return Ok((Answer::admitted(), Outcome::Skipped));
        }
        let tried = timeout_at(deadline.into(), self.try_all(&review, deadline));
        let (denials, warnings) = tried.await.map_err(|_| Unavailable::Busy)??;
        let answer = match self.mode {
            WorkloadMode::Deny if !denials.is_empty() => Answer {
                warnings,
                ..Answer::forbidden(denials.join("; "))
            },
            _ => Answer {
                warnings: [denials, warnings].concat(),
                ..Answer::admitted()
            },
        };
        let outcome = match answer.denial {
            Some(_) => Outcome::Denied,
            None => Outcome::Admitted,
        };
        Ok((answer, outcome))
    }

    /// What is denied to the pods of the templates that are new or other than before, and what plugins warn of.
    async fn try_all(
        &self,
        review: &ReviewRequest,
        deadline: Instant,
    ) -> Result<(Vec<String>, Vec<String>), Unavailable> {
        let (mut denials, mut warnings) = (Vec::new(), Vec::new());
        let tenant = review.tenant();
        let (peer, namespace) = tenant.clone();
        // Before anything is copied.
        let turn = self.tries.take(peer, namespace.clone()).await;
        let _turn = turn.map_err(|_| Unavailable::Busy)?;
        let templates = self.changed(review);
        if templates.is_empty() {
            return Ok((denials, warnings));
        }
        let about = self.namespaces.of(&tenant, deadline).await;
        for template in templates {
            let of = format!("{}: pods of this {}", template.field, review.kind.kind);
            let request = PodRequest {
                dry_run: true,
                deadline: Some(deadline),
                peer,
                ..template.request.of_namespace(about.clone())
            };
            let turn = self.turns.take(peer, namespace.clone()).await;
            let turn = turn.map_err(|_| Unavailable::Busy)?;
            let result = self.mutator.mutate(template.pod, request).await;
            drop(turn);
            let runs = match result {
                Ok(mutated) => mutated.runs,
                Err(rejected) => {
                    match rejected.rejection {
                        PodRejection::Denied(why) => {
                            denials.push(format!("{of} will be denied: {why}"));
                        }
                        PodRejection::Overdue(_) => return Err(Unavailable::Busy),
                        // Nothing is known, or it may be better by then.
                        _ => {}
                    }
                    rejected.runs
                }
            };
            let said = remarks_of(&runs, Severity::Warning).into_iter();
            warnings.extend(said.map(|remark| format!("{of}: {remark}")));
        }
        Ok((denials, warnings))
    }

    /// The templates that are new, or other than before.
    fn changed(&self, review: &ReviewRequest) -> Vec<Template> {
        let kind = &review.kind;
        let api_version = match kind.group.as_str() {
            "" => kind.version.clone(),
            group => format!("{group}/{}", kind.version),
        };
        let of = (&*api_version, &*kind.kind, &*review.namespace);
        let before = match review.operation {
            Operation::Update => (self.templates)(of, &review.old_object, TEMPLATES),
            _ => Vec::new(),
        };
        let before: HashMap<String, Value> =
            before.into_iter().map(|it| (it.field, it.pod)).collect();
        let mut templates = (self.templates)(of, &review.object, TEMPLATES);
        templates.retain(|it| before.get(&it.field) != Some(&it.pod));
        templates
    }
}

/// Whether another workload made it, which was reviewed itself.
fn is_owned(object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences");
    let owners = owners.and_then(Value::as_array).into_iter().flatten();
    let mut owners = owners.map(|owner| &owner["controller"]);
    owners.any(|is_controller| *is_controller == true)
}

#[cfg(test)]
mod tests;
