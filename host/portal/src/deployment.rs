//! What the Deployment of a tunnel says about itself.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::core::ObjectMeta;
use podloom_api::PortalExpose;
use podloom_api::names::portal::annotation;

use super::naming;

/// The type of the condition that says how a rollout goes.
const PROGRESSING: &str = "Progressing";
/// The reason of that condition once a rollout is complete.
const COMPLETE: &str = "NewReplicaSetAvailable";
/// The reason of that condition if a rollout made no progress for too long.
const OVERDUE: &str = "ProgressDeadlineExceeded";

/// Returns whether a Deployment of the tunnel's name is the PortalExpose's: of that which is its controller. Somebody else's is never
/// written or deleted.
///
/// If somebody removed the controller, it is ours by our labels and our hash.
pub(crate) fn is_owned(deployment: &ObjectMeta, expose: &ObjectMeta) -> bool {
    match controller(deployment) {
        Some(controller) => expose.uid.as_ref() == Some(&controller.uid),
        None => {
            let name = expose.name.as_deref().unwrap_or_default();
            has_labels(deployment, name)
                && annotation_of(deployment, annotation::INPUT_HASH).is_some()
        }
    }
}

/// Returns whether a Deployment has this PortalExpose as its controller.
pub(crate) fn has_controller(deployment: &ObjectMeta, uid: Option<&str>) -> bool {
    controller(deployment).is_some_and(|owner| Some(owner.uid.as_str()) == uid)
}

/// The API server allows one.
fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// Returns whether a Deployment is the tunnel of a PortalExpose: of the one that is its controller, and of that one's name.
pub(crate) fn is_tunnel(deployment: &ObjectMeta) -> bool {
    let expose = PortalExpose::resource();
    controller(deployment).is_some_and(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        group == Some(&*expose.group)
            && owner.kind == expose.kind
            && deployment.name == Some(naming::deployment_name(&owner.name))
    })
}

/// Returns whether an object has the four labels of what belongs to the PortalExpose of this name.
pub(crate) fn has_labels(metadata: &ObjectMeta, name: &str) -> bool {
    let labels = metadata.labels.as_ref();
    let has = |(key, value): (&String, &String)| labels.and_then(|it| it.get(key)) == Some(value);
    naming::labels(name).iter().all(has)
}

/// Returns an annotation of an object.
pub(crate) fn annotation_of<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// Returns how many pods the Deployment wants.
pub(crate) fn replicas(deployment: &Deployment) -> i32 {
    let spec = deployment.spec.as_ref();
    // The API server sets 1 if there is nothing.
    spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Returns how many pods are ready.
pub(crate) fn ready(deployment: &Deployment) -> i32 {
    let status = deployment.status.as_ref();
    status.and_then(|status| status.ready_replicas).unwrap_or(0)
}

/// Returns whether the Deployment's controller has not seen its newest generation yet.
pub(crate) fn lags(deployment: &Deployment) -> bool {
    let observed = deployment
        .status
        .as_ref()
        .and_then(|it| it.observed_generation);
    observed < deployment.metadata.generation
}

/// Returns whether all of these pods are of the newest template.
pub(crate) fn is_settled(deployment: &Deployment, desired: i32) -> bool {
    let updated = |status: &DeploymentStatus| status.updated_replicas.unwrap_or(0);
    !lags(deployment) && deployment.status.as_ref().map_or(0, updated) == desired
}

/// Returns whether all pods are of the newest template and ready, and no others are left.
pub(crate) fn is_complete(deployment: &Deployment) -> bool {
    let desired = replicas(deployment);
    let status = deployment.status.as_ref();
    let left = status.and_then(|status| status.replicas).unwrap_or(0);
    is_settled(deployment, desired) && ready(deployment) == desired && left == desired
}

/// Returns whether the rollout made no progress for too long.
pub(crate) fn is_overdue(deployment: &Deployment) -> bool {
    let reason = progress(deployment).and_then(|it| it.reason.as_deref());
    !lags(deployment) && reason == Some(OVERDUE)
}

/// Returns whether the Deployment is replacing its pods, or is about to.
pub(crate) fn is_rolling(deployment: &Deployment) -> bool {
    if lags(deployment) {
        return true;
    }
    match progress(deployment) {
        Some(it) => it.status == "True" && it.reason.as_deref() != Some(COMPLETE),
        None => !is_settled(deployment, replicas(deployment)),
    }
}

/// Returns why the Deployment's controller cannot make pods, such as an exceeded quota.
pub(crate) fn failure(deployment: &Deployment) -> Option<&str> {
    let failure = condition(deployment, "ReplicaFailure").filter(|it| it.status == "True")?;
    failure.message.as_deref()
}

/// Removes what nothing reads, before a Deployment is cached.
pub(crate) fn prune(deployment: &mut Deployment) {
    naming::prune(&mut deployment.metadata);
    if let Some(spec) = &mut deployment.spec {
        spec.template = PodTemplateSpec::default();
        spec.selector = LabelSelector::default();
    }
}

fn progress(deployment: &Deployment) -> Option<&DeploymentCondition> {
    condition(deployment, PROGRESSING)
}

fn condition<'a>(deployment: &'a Deployment, type_: &str) -> Option<&'a DeploymentCondition> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}
