//! All that a plan for a Cluster may depend on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::{
    FINALIZER, INFRASTRUCTURE_PREFIX, KUBECONFIG_SUFFIX, annotation,
};
use podloom_api::{ClusterObject, ClusterOperation, ClusterStatus, DriftPolicy, OperationKind};
use podloom_engine::shown::at_most;
use podloom_engine::write::MetadataPatch;
use serde_json::Value;

use super::durable::{Change, Durable};
use super::memory::{At, Inputs, Known, KubeconfigTrouble, OnDelete, OurSecret, Unsaved};
use crate::im::{ImState, InfrastructureId, Reading, Target};
use crate::in_use::Guard;
use crate::kubeconfig::Kubeconfig;
use crate::resolve::{Backend, Trouble};
use crate::template::{
    self, Comparison, Problem, TEMPLATE_BYTES_MAX, canonical, check, compare, size_of,
};

/// What the operator was started with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long to wait after a request whose outcome is unknown before it is looked up or repeated.
    pub(crate) settle: Duration,
    /// Whether the API servers of clusters are asked whether they answer.
    pub(crate) probe: bool,
}

/// A Cluster, and what there is around it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cluster: Arc<ClusterObject>,
    pub(crate) durable: Durable,
    /// What its Cloud leads to; none if it is bound to none.
    pub(crate) backend: Option<Result<Backend, Trouble>>,
    /// Its template; none if it has none.
    pub(crate) wanted: Option<Wanted>,
    /// What is remembered of it.
    pub(crate) known: Known,
    /// The Secret for its kubeconfig, or with it.
    pub(crate) secret: SeenSecret,
    /// The other Cluster that its infrastructure belongs to, as a sentence names it.
    pub(crate) rival: Option<String>,
    pub(crate) learned: Learned,
}

/// The Secret for the kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeenSecret {
    /// No cache shows one, and nobody asked the API server.
    Unseen,
    /// There is none.
    Absent,
    /// It is somebody else's.
    Foreign,
    Ours(OurSecret),
}

/// What the actions of this pass came to.
#[derive(Clone, Default)]
pub(crate) struct Learned {
    /// Why the API server rejected our finalizer.
    pub(crate) metadata_rejected: Option<String>,
    /// The Secrets for a request were read.
    pub(crate) prepared: Option<Prepared>,
    /// The change that was recorded, and is to be sent now.
    pub(crate) recorded: Option<Change>,
    /// IM was asked something.
    pub(crate) is_asked: bool,
    /// Whether the Cloud and the provider stay.
    pub(crate) guard: Option<Guard>,
    /// A kubeconfig to store.
    pub(crate) kubeconfig: Option<Kubeconfig>,
    /// The API server of the cluster was asked.
    pub(crate) is_probed: bool,
    /// The infrastructure does not exist any more, or never did.
    pub(crate) is_gone: bool,
}

/// Where and as whom a request goes, for this pass alone. Secrets are read before a change is recorded, so that nothing is recorded in
/// vain.
#[derive(Clone, Debug)]
pub(crate) struct Prepared(pub(crate) Option<Target>);

impl World {
    pub(crate) fn metadata(&self) -> &ObjectMeta {
        &self.cluster.metadata
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Option<&ClusterStatus> {
        self.cluster.status.as_ref()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Whether it is a cluster that existed before, and is only probed.
    pub(crate) fn is_registered(&self) -> bool {
        self.cluster.spec.kubeconfig_secret_ref.is_some()
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        let finalizers = self.metadata().finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|name| name == FINALIZER)
    }

    /// The patch that removes our finalizer; none if it is not there.
    pub(crate) fn without_finalizer(&self) -> Option<MetadataPatch> {
        MetadataPatch::without(self.metadata(), FINALIZER)
    }

    /// The patch that adds it.
    pub(crate) fn with_finalizer(&self) -> MetadataPatch {
        let others = self.metadata().finalizers.iter().flatten().cloned();
        MetadataPatch {
            finalizers: Some(others.chain([FINALIZER.to_owned()]).collect()),
            ..MetadataPatch::default()
        }
    }

    pub(crate) fn poll(&self) -> Duration {
        let seconds = self.cluster.spec.poll_interval_seconds.max(1);
        Duration::from_secs(u64::from(seconds.unsigned_abs()))
    }

    /// How long an operation may take.
    pub(crate) fn timeout(&self, kind: OperationKind) -> Duration {
        let timeouts = self.cluster.spec.timeout_seconds;
        let seconds = match kind {
            OperationKind::Create => timeouts.create,
            OperationKind::Delete => timeouts.delete,
            OperationKind::Update | OperationKind::Reconfigure | OperationKind::Start => {
                timeouts.update
            }
        };
        Duration::from_secs(u64::from(seconds.unsigned_abs()))
    }

    /// What the Cloud leads to, if all of that exists.
    pub(crate) fn resolved(&self) -> Option<&Backend> {
        self.backend.as_ref()?.as_ref().ok()
    }

    /// What keeps the Cloud from being used, if it is bound to one.
    pub(crate) fn unresolved(&self) -> Option<&Trouble> {
        let unresolved = self.backend.as_ref().and_then(|it| it.as_ref().err());
        unresolved.or(self.known.missing.as_ref())
    }

    /// What the answers of IM depend on.
    pub(crate) fn inputs(&self, secrets: Vec<Option<String>>) -> Inputs {
        Inputs {
            generation: self.metadata().generation,
            is_deleted: self.is_deleted(),
            on_delete: self.on_delete(),
            backend: self.resolved().cloned(),
            secrets,
        }
    }

    /// The reading of the state, if it is not older than one poll interval.
    pub(crate) fn fresh(&self, now: Timestamp) -> Option<&Reading> {
        let At { what, at } = self.known.reading.as_ref()?;
        let age = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        (age < self.poll()).then_some(what)
    }

    /// IM's last word about the state: that of memory, else that of the status.
    pub(crate) fn im_state(&self) -> Option<ImState> {
        match &self.known.reading {
            Some(reading) => Some(reading.what.state),
            None => self.durable.im_state.as_deref().map(ImState::parse),
        }
    }

    /// Whether the machines were configured when last heard of.
    pub(crate) fn is_configured(&self) -> bool {
        self.durable.id.is_some() && self.im_state() == Some(ImState::Configured)
    }

    /// Whether the drift policy allows a repair. What is being created or updated is always repaired.
    pub(crate) fn is_repaired(&self) -> bool {
        let is_ours = |kind| matches!(kind, OperationKind::Create | OperationKind::Update);
        let under_way = self.durable.under_way().map(|it| it.kind);
        self.cluster.spec.drift_policy == DriftPolicy::Repair || under_way.is_some_and(is_ours)
    }

    /// Why there is no kubeconfig of the last operation.
    pub(crate) fn kubeconfig_trouble(&self) -> Option<&KubeconfigTrouble> {
        let trouble = self.known.kubeconfig.as_ref()?;
        (Some(&trouble.mark) == self.durable.mark().as_ref()).then_some(trouble)
    }

    /// Remembers what came of a request until the status says it.
    pub(crate) fn keep_unsaved(&mut self) {
        let before = Durable::of(self.status());
        let after = self.durable.clone();
        self.known.unsaved = (before != after).then(|| Box::new(Unsaved { before, after }));
    }

    /// When the operation that is under way is late.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let operation = self.durable.under_way()?;
        let timeout = self.timeout(operation.kind);
        Some(podloom_engine::plan::later(operation.started_at.0, timeout))
    }

    pub(crate) fn is_overdue(&self, now: Timestamp) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Whether it is known for sure that no infrastructure has the Cluster's name.
    pub(crate) fn is_clean(&self) -> bool {
        // Our finalizer precedes the first request.
        let was_never_sent = self.durable.is_empty() && !self.has_finalizer();
        let is_known = self.known.clean == Some(self.durable.last_call_at());
        self.durable.id.is_none() && (is_known || was_never_sent)
    }

    /// Whether a create request may still be carried out: its answer was lost, or the status that says so.
    pub(crate) fn may_be_late(&self) -> bool {
        let operation = self.durable.operation.as_ref();
        operation.is_none_or(|it| it.last_call_at.is_some())
    }

    /// The infrastructure to take over, if it was not yet.
    pub(crate) fn to_adopt(&self) -> Option<InfrastructureId> {
        if self.durable.id.is_some() || self.durable.operation.is_some() {
            return None;
        }
        let wanted = self.cluster.spec.adopt_infrastructure_id.as_deref()?;
        InfrastructureId::parse(wanted)
    }

    /// The template that IM has or gets: what was recorded, else what the spec says. None if it must not be sent: it comes from a status
    /// that anybody may have written, or from a spec that was never checked.
    pub(crate) fn whole(&self) -> Option<&Value> {
        let wanted = self.wanted.as_ref().map(|it| &it.template);
        let template = self.durable.applied.as_ref().or(wanted)?;
        self.may_send(template).then_some(template)
    }

    /// How many machines IM has for the template that it has, at least.
    pub(crate) fn machines_wanted(&self) -> usize {
        self.durable
            .applied
            .as_deref()
            .map_or(0, template::machines)
    }

    /// Whether a template passes our own checks.
    pub(crate) fn may_send(&self, template: &Value) -> bool {
        let backend = self.resolved();
        backend.is_some_and(|backend| check(template, backend.im.allow_file_references).is_ok())
    }

    /// The URL of the provider, as it is written.
    pub(crate) fn url(&self) -> Option<String> {
        Some(self.resolved()?.im.written_url.clone())
    }

    /// Whether the provider has another URL than the one that answered for the infrastructure.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let now = self.resolved().map(|backend| &backend.im.written_url);
        let (Some(now), Some(before)) = (now, &self.durable.provider_url) else {
            return false;
        };
        now.trim_end_matches('/') != before.trim_end_matches('/')
    }

    /// Whether the spec names this infrastructure: then it has another name than ours.
    fn is_adopted(&self, id: &InfrastructureId) -> bool {
        let wanted = self.cluster.spec.adopt_infrastructure_id.as_deref();
        wanted.and_then(InfrastructureId::parse).as_ref() == Some(id)
    }

    /// Whether another Infrastructure Manager than that of now gave the id, so that it may be anything here. Never for an adopted
    /// infrastructure.
    pub(crate) fn is_moved(&self) -> bool {
        let id = self.durable.id.as_ref();
        self.is_elsewhere() && id.is_some_and(|id| !self.is_adopted(id))
    }

    /// Whether to read the name of the infrastructure before any other request about it. Anybody who may write the status can put any
    /// id there.
    pub(crate) fn is_unnamed(&self) -> bool {
        let id = self.durable.id.as_ref();
        let is_known = |id| self.known.named.as_ref() == Some(id) || self.is_adopted(id);
        self.is_moved() || id.is_some_and(|id| !is_known(id))
    }

    /// The name of its infrastructure.
    pub(crate) fn infrastructure_name(&self) -> String {
        format!("{INFRASTRUCTURE_PREFIX}{}", self.uid())
    }

    /// The name of the Secret for the kubeconfig.
    pub(crate) fn secret_name(&self) -> String {
        let given = self.cluster.spec.kubeconfig_secret_name.clone();
        given.unwrap_or_else(|| format!("{}{KUBECONFIG_SUFFIX}", self.name()))
    }

    /// What somebody asks for with the annotation, while it is being deleted.
    pub(crate) fn on_delete(&self) -> OnDelete {
        let annotations = self.metadata().annotations.as_ref();
        let value = annotations.and_then(|all| all.get(annotation::ON_DELETE));
        match value.map(String::as_str) {
            Some(annotation::FORCE) => OnDelete::Force,
            Some(annotation::ABANDON) => OnDelete::Abandon,
            _ => OnDelete::Wait,
        }
    }

    /// Whether the Secret has the kubeconfig of the last operation, and nobody changed it since.
    pub(crate) fn is_stored(&self) -> bool {
        let (SeenSecret::Ours(secret), Some(kept)) = (&self.secret, &self.known.kept) else {
            return false;
        };
        let is_as_written = kept.version == secret.version || is_older(secret, &kept.version);
        self.has_kubeconfig() && kept.mark == secret.mark && is_as_written
    }

    /// Whether the Secret has a kubeconfig, as far as its annotation says.
    pub(crate) fn has_kubeconfig(&self) -> bool {
        match &self.secret {
            SeenSecret::Ours(secret) => secret.mark.is_some() && secret.mark == self.durable.mark(),
            _ => false,
        }
    }
}

impl SeenSecret {
    /// Returns what a Secret is to the Cluster of this UID.
    pub(crate) fn of(secret: &ObjectMeta, uid: &str) -> Self {
        let mut owners = secret.owner_references.iter().flatten();
        if !owners.any(|owner| owner.uid == uid) {
            return Self::Foreign;
        }
        let annotations = secret.annotations.as_ref();
        Self::Ours(OurSecret {
            version: secret.resource_version.clone(),
            mark: annotations.and_then(|all| all.get(annotation::OPERATION).cloned()),
        })
    }
}

/// Whether the cache shows a version from before our own write. Versions of one kind are numbers that grow (KEP-5504).
fn is_older(seen: &OurSecret, written: &Option<String>) -> bool {
    let number = |version: &Option<String>| version.as_deref()?.parse::<u64>().ok();
    matches!((number(&seen.version), number(written)), (Some(seen), Some(written)) if seen < written)
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("durable", &self.durable)
            .field("known", &self.known)
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}

// The template of a Cluster, and what our own checks say about it.

/// A template as it would be sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// Its canonical form.
    pub(crate) template: Arc<Value>,
    /// Why it must not be sent.
    pub(crate) problem: Option<String>,
}

impl Wanted {
    /// Checks a template. References to files of IM's machine are a problem unless the provider allows them.
    pub(crate) fn of(template: &Value, allow_file_references: bool) -> Self {
        let template = canonical(template);
        let problem = problem(&template, allow_file_references);
        Self {
            template: Arc::new(template),
            problem,
        }
    }
}

fn problem(template: &Value, allow_file_references: bool) -> Option<String> {
    let bytes = size_of(template);
    if bytes > TEMPLATE_BYTES_MAX {
        return Some(format!(
            "spec.tosca has {bytes} bytes, at most {TEMPLATE_BYTES_MAX} are allowed"
        ));
    }
    let problems = check(template, allow_file_references).err()?;
    let sentences: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Some(at_most(MESSAGE_MAX, sentences.join("; ")))
}

// How the template of a Cluster differs from the one that IM has.

/// The longest message about a template or a change of it, in bytes.
const MESSAGE_MAX: usize = 512;

/// What is to be done about the template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    /// Nothing: IM has it.
    Same,
    /// It must be noted, and nothing is sent.
    Local,
    /// It is to be sent.
    Send {
        /// What is sent, without the name.
        sent: Value,
        /// The nodes that it removes.
        retired: Vec<String>,
    },
    /// It must not be sent, for this reason.
    Invalid(String),
    /// IM would ignore a part of the change, which this sentence names.
    Unsupported(String),
}

/// Compares the template with the one that IM has. A Cluster without a template has nothing to send.
pub(crate) fn edit(world: &World) -> Edit {
    let Some(wanted) = &world.wanted else {
        return Edit::Same;
    };
    if let Some(problem) = &wanted.problem {
        return Edit::Invalid(problem.clone());
    }
    let wanted = &*wanted.template;
    let Some(applied) = world.durable.applied.as_deref() else {
        return whole(wanted);
    };
    let plain = || compared(world, applied, wanted);
    match &world.known.unsure {
        // What the last process sent may be there although the status does not say so.
        None if is_forgotten(world) => match plain() {
            Edit::Same | Edit::Local => whole(wanted),
            other => other,
        },
        None => plain(),
        // What was sent may be there or not. Compared with both at once, what only the lost request had is removed again.
        Some(unsure) => match compared(world, &both(applied, unsure), wanted) {
            send @ Edit::Send { .. } => send,
            _ => match plain() {
                Edit::Same | Edit::Local => whole(wanted),
                other => other,
            },
        },
    }
}

/// Whether a template was sent of which nobody knows any more what it was, since the process that sent it has ended.
fn is_forgotten(world: &World) -> bool {
    let is_update = |operation: &ClusterOperation| match operation.kind {
        OperationKind::Update => true,
        // The first request is recorded with its template.
        OperationKind::Create => operation.attempts > 1,
        _ => false,
    };
    let under_way = world.durable.under_way();
    let is_sent = under_way.is_some_and(|it| it.last_call_at.is_some() && is_update(it));
    is_sent && world.durable.id.is_some() && world.known.tried.is_none()
}

/// To send the whole template: what IM has is not known.
fn whole(wanted: &Value) -> Edit {
    Edit::Send {
        sent: wanted.clone(),
        retired: Vec::new(),
    }
}

fn compared(world: &World, applied: &Value, wanted: &Value) -> Edit {
    match compare(applied, wanted, &world.durable.retired) {
        Comparison::Same => Edit::Same,
        Comparison::LocalOnly => Edit::Local,
        // Nodes that go are written as the status has them, and anybody may have written that.
        Comparison::Update { sent, .. } if world.resolved().is_some() && !world.may_send(&sent) => {
            Edit::Invalid("a node that goes names a file of the Infrastructure Manager; allow it with allowFileReferences of the provider, or keep the node".to_owned())
        }
        Comparison::Update { sent, retired } => Edit::Send { sent, retired },
        Comparison::Unsupported(problems) => Edit::Unsupported(unsupported(&problems)),
    }
}

fn unsupported(problems: &[Problem]) -> String {
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let message = format!(
        "undo these changes, or create another Cluster: the Infrastructure Manager would ignore them, so nothing was sent: {}",
        problems.join("; ")
    );
    at_most(MESSAGE_MAX, message)
}

/// The template with all that either has.
fn both(applied: &Value, unsure: &Arc<Value>) -> Value {
    let mut both = applied.clone();
    json_patch::merge(&mut both, unsure);
    both
}

#[cfg(test)]
mod tests;
