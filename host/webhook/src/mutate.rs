//! `/mutate/pods`: passes pods of the API server through the plugin chain.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use podloom_api::{SelenosisKind, names};
use podloom_browser::render::owner_of_session;
use podloom_mutation::{
    LaterChange, MutatedPod, NamespaceMetadata, Operation as PodOperation, PodMutator,
    PodRejection, PodRequest, RejectedPod, owner_of, remarks,
};
use podloom_turns::{Cause, Lines};
use serde_json::Value;
use tokio::time::timeout_at;

use crate::PeerTurns;
use crate::gate::TakenGate;
use crate::metrics::{Outcome, WebhookMetrics};
use crate::owners::{Kept, Owners};
use crate::review::{
    Answer, NAME_BYTES, ObjectKind, Operation, ReviewRequest, Tenant, Unavailable, shorten,
};

/// The annotation of pods that a kubelet created from a file. The pod in the API server is only their mirror image: if it differed,
/// the kubelet would delete it.
///
/// Only kubelets create them. Anybody else could write the annotation too.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How the API server calls kubelets.
const KUBELETS: &str = "system:node:";
/// The most containers of a pod, all kinds together. No node runs such a pod, and each costs every plugin time.
const CONTAINERS: usize = 1000;
/// How much of a plugin's reason is logged.
const REASON_BYTES: usize = 512;
/// The patch of a pod that stays as it is.
const EMPTY_PATCH: &str = "[]";

/// Knows the namespaces of the cluster.
pub trait Namespaces: Send + Sync {
    /// Returns the labels and annotations of the namespace that somebody asks about; none if they are not known, and the API server
    /// does not tell them before the deadline.
    fn of<'a>(
        &'a self,
        asker: &'a Tenant,
        deadline: Instant,
    ) -> BoxFuture<'a, Option<NamespaceMetadata>>;
}

/// Passes pods of the API server through the plugin chain.
pub struct PodWebhook {
    /// The chain.
    pub mutator: Arc<dyn PodMutator>,
    /// The namespaces, for plugins that ask.
    pub namespaces: Arc<dyn Namespaces>,
    /// What controls the pods.
    pub owners: Owners,
    /// Accounts whose pods pass unchanged if they carry the stamp of this very chain, as `system:serviceaccount:NS:NAME`.
    pub trusted: Vec<String>,
    /// The turns to pass the chain, which all that use the chain share.
    pub turns: PeerTurns,
    /// Decides which lines about pods are logged.
    pub lines: Lines,
}

impl PodWebhook {
    /// Answers a review.
    pub(crate) async fn answer(
        &self,
        mut review: ReviewRequest,
        deadline: Instant,
        metrics: &WebhookMetrics,
    ) -> Result<(Answer, Outcome), Unavailable> {
        let is_new = is_new_pod(&review.kind, review.operation, &review.sub_resource);
        if is_mirror(&review) {
            return Ok((Answer::admitted(), Outcome::Skipped));
        }
        if !is_new {
            return self.answer_later(review, deadline, metrics).await;
        }
        // No plugin sees it, so a pod is the same with a gate and without.
        let gate = TakenGate::take(&mut review.object);
        if self.is_done(&review) {
            let answer = Answer {
                patch: gate.prepend_to(None),
                ..Answer::admitted()
            };
            return Ok((answer, Outcome::Skipped));
        }
        let containers = containers(&review.object);
        if containers > CONTAINERS {
            let message = format!(
                "the pod has {containers} containers; at most {CONTAINERS} pass the plugin chain"
            );
            return Ok((Answer::invalid(message), Outcome::Denied));
        }
        let who = Who::of(&review);
        // Before its turn, which would be idle while the API server is asked.
        let namespace = self.namespaces.of(&who.tenant, deadline).await;
        let kept = match self.mutator.writes_labels() {
            true => self.owners.kept(&review, deadline).await?,
            false => Kept::unasked(&review.object),
        };
        if let Some(kind) = &kept.unknown_kind {
            metrics.owner_unknown();
            who.log_unknown_kind(kind, &self.owners, &self.lines);
        }
        let (pod, mut request) = request(review, namespace, deadline);
        request.selector = kept.labels;
        request.is_selector_unread = kept.is_unread;
        let passed = self.pass(pod, request, (&who, gate), metrics).await;
        let (mut answer, outcome) = passed?;
        answer.warnings.splice(0..0, kept.note);
        Ok((answer, outcome))
    }

    /// Answers a review of a change of a pod that exists. What nobody asks about is admitted.
    async fn answer_later(
        &self,
        mut review: ReviewRequest,
        deadline: Instant,
        metrics: &WebhookMetrics,
    ) -> Result<(Answer, Outcome), Unavailable> {
        let operation = later(&review).filter(|_| self.mutator.takes_updates());
        let change = operation.and_then(|operation| {
            LaterChange::of(operation, &review.old_object, review.object.take())
        });
        let Some((later, pod)) = change else {
            return Ok((Answer::admitted(), Outcome::Skipped));
        };
        // Of what the request says, the API server takes no more than this.
        review.object = pod;
        let who = Who::of(&review);
        let namespace = self.namespaces.of(&who.tenant, deadline).await;
        let (pod, mut request) = request(review, namespace, deadline);
        request.later = Some(Arc::new(later));
        let gate = TakenGate::default();
        self.pass(pod, request, (&who, gate), metrics).await
    }

    /// Has a pod pass the chain in its turn.
    async fn pass(
        &self,
        pod: Value,
        request: PodRequest,
        (who, gate): (&Who, TakenGate),
        metrics: &WebhookMetrics,
    ) -> Result<(Answer, Outcome), Unavailable> {
        let arrived = Instant::now();
        let (peer, of) = who.tenant.clone();
        let turn = self.turns.take(peer, of);
        let until = request.deadline.unwrap_or(arrived).into();
        let Ok(Ok(turn)) = timeout_at(until, turn).await else {
            return Err(Unavailable::Busy);
        };
        metrics.waited(arrived.elapsed());
        let result = self.mutator.mutate(pod, request).await;
        drop(turn);
        match result {
            Ok(mutated) => Ok(admitted(mutated, gate, who)),
            Err(rejected) => rejection(rejected, who, &self.lines),
        }
    }

    /// Whether the pod passed this very chain already, and was sent by an account that is trusted to say so.
    fn is_done(&self, review: &ReviewRequest) -> bool {
        let stamp = annotation(&review.object, names::annotation::CHAIN);
        self.trusted.contains(&review.user_info.username)
            && stamp.is_some_and(|digest| self.mutator.serves(digest))
    }
}

/// How a review changes a pod that exists; none for whatever else.
fn later(review: &ReviewRequest) -> Option<PodOperation> {
    let is_update = review.operation == Operation::Update
        && is_for_chain(&review.kind, review.operation, &review.sub_resource);
    is_update.then(|| operation_of(&review.sub_resource))?
}

/// Whether a review may be about a pod that passes the chain: a new one, or one that changes.
pub(crate) fn is_for_chain(kind: &ObjectKind, operation: Operation, sub_resource: &str) -> bool {
    let is_update = operation == Operation::Update && kind.group.is_empty() && kind.kind == "Pod";
    is_update && operation_of(sub_resource).is_some() || is_new_pod(kind, operation, sub_resource)
}

/// What an update by a subresource changes; none if plugins never see it.
fn operation_of(sub_resource: &str) -> Option<PodOperation> {
    match sub_resource {
        "" => Some(PodOperation::Update),
        "resize" => Some(PodOperation::Resize),
        "ephemeralcontainers" => Some(PodOperation::EphemeralContainers),
        _ => None,
    }
}

/// Whether a review is about a pod that is to be created.
fn is_new_pod(kind: &ObjectKind, operation: Operation, sub_resource: &str) -> bool {
    let ObjectKind { group, kind, .. } = kind;
    operation == Operation::Create && sub_resource.is_empty() && group.is_empty() && kind == "Pod"
}

/// How many containers a pod has, of all kinds.
fn containers(pod: &Value) -> usize {
    let spec = pod.get("spec");
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let lists = lists.iter().filter_map(|list| spec?.get(list)?.as_array());
    lists.map(Vec::len).sum()
}

fn is_mirror(review: &ReviewRequest) -> bool {
    review.user_info.username.starts_with(KUBELETS) && annotation(&review.object, MIRROR).is_some()
}

fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    pod.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// The pod, and what plugins can read about it: the same as in `podloom render`.
fn request(
    review: ReviewRequest,
    namespace: Option<NamespaceMetadata>,
    deadline: Instant,
) -> (Value, PodRequest) {
    let mut pod = review.object;
    // What the API server calls it is what counts.
    fill(&mut pod, "apiVersion", "v1");
    fill(&mut pod, "kind", "Pod");
    let request = PodRequest {
        name: text(pod.get("metadata"), "name"),
        owner: owner(&pod, &review.namespace),
        // The caller knows.
        selector: Arc::default(),
        namespace: review.namespace,
        peer: review.peer,
        dry_run: review.dry_run == Some(true),
        deadline: Some(deadline),
        wants_patch: true,
        ..PodRequest::of_pod(&pod)
    };
    (pod, request.of_namespace(namespace))
}

/// Whose pod it is. Sessions belong together as in the operator, which makes them.
fn owner(pod: &Value, namespace: &str) -> String {
    let owner = owner_of(pod, namespace);
    let is_session = owner.split('/').next() == Some(SelenosisKind::Browser.name());
    let session = owner_of_session(pod, namespace).filter(|_| is_session);
    session.unwrap_or(owner)
}

fn fill(pod: &mut Value, field: &str, value: &str) {
    if let Value::Object(fields) = pod {
        fields.insert(field.to_owned(), value.into());
    }
}

fn text(object: Option<&Value>, field: &str) -> String {
    let text = object.and_then(|object| object.get(field)?.as_str());
    text.unwrap_or_default().to_owned()
}

/// Which pod a log line is about.
struct Who {
    tenant: Tenant,
    /// The name, or what the API server will make it of.
    name: String,
    user: String,
}

impl Who {
    fn of(review: &ReviewRequest) -> Self {
        let metadata = review.object.get("metadata");
        let name = match text(metadata, "name") {
            name if name.is_empty() => text(metadata, "generateName"),
            name => name,
        };
        Self {
            tenant: review.tenant(),
            name: shorten(&name, NAME_BYTES).into_owned(),
            user: shorten(&review.user_info.username, NAME_BYTES).into_owned(),
        }
    }

    /// What a line is about, and who caused it.
    fn caused(&self, about: &'static str) -> Cause {
        let (peer, namespace) = self.tenant.clone();
        Cause {
            about,
            plugin: None,
            peer,
            namespace: Some(namespace),
        }
    }

    fn log_unknown_kind(&self, kind: &str, owners: &Owners, lines: &Lines) {
        let what = "a pod has an owner of an unknown kind";
        // The last one counts as named.
        if !owners.is_named(kind) && lines.may(self.caused(what)) && owners.may_name(kind) {
            let (namespace, name, user) = (&self.tenant.1, &self.name, &self.user);
            let remedy = "if its controller creates the pods, name the kind with --pod-owner";
            tracing::warn!(
                namespace,
                pod = name,
                user,
                owner_kind = kind,
                remedy,
                "{what}"
            );
        }
    }
}

fn admitted(mutated: MutatedPod, gate: TakenGate, who: &Who) -> (Answer, Outcome) {
    let warnings = remarks(&mutated.runs);
    let patch = mutated.patch.filter(|patch| patch != EMPTY_PATCH);
    let patch = gate.prepend_to(patch);
    tracing::debug!(
        namespace = who.tenant.1,
        pod = who.name,
        chain = mutated.chain,
        "pod admitted"
    );
    let outcome = match patch {
        Some(_) => Outcome::Mutated,
        None => Outcome::Admitted,
    };
    let answer = Answer {
        patch,
        warnings,
        ..Answer::admitted()
    };
    (answer, outcome)
}

/// If a plugin denied the pod or failed, that is the answer: the plugin's own failurePolicy said so. If no plugin ran, nothing is
/// known about the pod, and the failurePolicy of the webhook configuration decides.
fn rejection(
    rejected: RejectedPod,
    who: &Who,
    lines: &Lines,
) -> Result<(Answer, Outcome), Unavailable> {
    let RejectedPod { rejection, runs } = rejected;
    let reason = shorten(rejection.message(), REASON_BYTES).into_owned();
    let Who { tenant, name, user } = who;
    let (_, namespace) = tenant;
    let (answer, outcome) = match rejection {
        PodRejection::Denied(message) => {
            if lines.may(who.caused("pod denied")) {
                tracing::info!(namespace, pod = name, user, reason, "pod denied");
            }
            (Answer::forbidden(message), Outcome::Denied)
        }
        PodRejection::Overdue(_) => return Err(Unavailable::Busy),
        PodRejection::Unread(_) => {
            return Err(Unavailable::Namespace(format!("{namespace}: {reason}")));
        }
        _ if runs.is_empty() => return Err(Unavailable::NoChain(reason)),
        rejection => {
            let what = "pod rejected: a plugin failed";
            if lines.may(who.caused(what)) {
                tracing::warn!(namespace, pod = name, user, error = reason, "{what}");
            }
            let message = format!("plugin {}", rejection.message());
            (Answer::broken(message), Outcome::Broken)
        }
    };
    let answer = Answer {
        warnings: remarks(&runs),
        ..answer
    };
    Ok((answer, outcome))
}

#[cfg(test)]
mod tests;
