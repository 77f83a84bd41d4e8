//! The Deployment of a tunnel: pure, and the same bytes for the same input.
//!
//! 1. [`tunnel`] makes the Deployment. Its pod template goes through the plugin chain as a Pod without name.
//! 2. [`finish`] puts the result back and adds the hashes by which a later pass sees whether anything has changed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource,
    HTTPGetAction, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
    SeccompProfile, SecretKeySelector, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use podloom_api::names::portal::{CONTAINER, IDENTITY_KEY, annotation};
use podloom_api::{
    PortalExpose, PortalExposeObject, PortalExposeSpec, TunnelRollout, TunnelSize, names,
};
use podloom_mutation::{MutatedPod, PodRequest};
use serde_json::{Map, Value, json};

use super::check::Target;
use super::class::Class;
use super::naming;
use super::settings::TunnelSettings;
use crate::settings::ClientVersion;

/// How many ReplicaSets of earlier templates stay, to go back to.
const REVISIONS: i32 = 3;
/// The path of the pod template in a Deployment.
const TEMPLATE: &str = "/spec/template";
/// The parts of a pod that a template has.
const PARTS: [&str; 2] = ["metadata", "spec"];
/// What the chain writes on a pod, and this module moves to the Deployment: else each change of the chain would roll each tunnel.
const STAMPS: [&str; 2] = [names::annotation::CHAIN, names::annotation::MUTATIONS];

/// What a tunnel is rendered from.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// The PortalExpose.
    pub expose: &'a PortalExposeObject,
    /// Its relays.
    pub targets: &'a [Target],
    /// Its class.
    pub class: &'a Class,
    /// The hash of the identity in its Secret; none if that is not known.
    pub identity_checksum: Option<&'a str>,
    /// What all tunnels have in common.
    pub settings: &'a TunnelSettings,
}

/// A Deployment before the chain.
#[derive(Clone, PartialEq)]
pub(crate) struct Tunnel {
    /// The Deployment, without our hashes.
    pub deployment: Value,
    /// The hash of the Deployment. It is equal as long as nothing that is rendered changes.
    pub input_hash: String,
}

/// A Deployment after the chain, ready to be applied.
#[derive(Clone, PartialEq)]
pub(crate) struct Finished {
    /// The Deployment.
    pub object: Value,
    /// The hash of its pod template.
    pub template_hash: String,
    /// The digest of the chain; none without a chain.
    pub chain: Option<String>,
}

impl fmt::Debug for Tunnel {
    /// Without the Deployment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel")
            .field("input_hash", &self.input_hash)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Finished {
    /// Without the Deployment: plugins may have written secrets into it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finished")
            .field("template_hash", &self.template_hash)
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// What the chain did that makes the pod no tunnel. The display is a sentence about the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResultProblem {
    /// The selector would not match the pods any more.
    #[error(
        "the plugins changed the label {0}, by which the Deployment finds its pods; they must leave it as it is"
    )]
    Label(String),
    /// The client is gone.
    #[error("the plugins removed the container {CONTAINER}; they must keep it")]
    NoContainer,
    /// A Deployment can have no such pods.
    #[error(
        "the plugins set restartPolicy to {0}, but pods of a Deployment are always restarted; they must leave it out"
    )]
    RestartPolicy(String),
    /// What the chain returned is no pod.
    #[error("the pod has no metadata or no spec after the plugins; they must keep both")]
    NoPod,
}

/// Makes the Deployment of a tunnel.
///
/// A PortalExpose without UID, as files have it, owns nothing.
pub(crate) fn tunnel(inputs: &Inputs<'_>) -> Tunnel {
    let metadata = &inputs.expose.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let labels = naming::labels(name);
    let spec = &inputs.class.spec;
    let deployment = Deployment {
        metadata: ObjectMeta {
            name: Some(naming::deployment_name(name)),
            namespace: metadata.namespace.clone(),
            labels: Some(labels.clone()),
            owner_references: controller(metadata).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(spec.replicas),
            progress_deadline_seconds: Some(seconds(inputs.settings)),
            revision_history_limit: Some(REVISIONS),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            strategy: Some(strategy(spec.rollout)),
            template: template(inputs, labels),
            ..DeploymentSpec::default()
        }),
        status: None,
    };
    let deployment = json!(deployment);
    Tunnel {
        input_hash: naming::of_json(&deployment),
        deployment,
    }
}

impl Tunnel {
    /// Returns the pod that goes through the chain.
    pub(crate) fn pod(&self) -> Value {
        let template = self.deployment.pointer(TEMPLATE);
        let mut pod = json!({ "apiVersion": "v1", "kind": "Pod" });
        for part in PARTS {
            pod[part] = template
                .and_then(|it| it.get(part))
                .cloned()
                .unwrap_or_default();
        }
        pod
    }

    /// Returns what plugins may ask about that pod. As for every template of a workload, that is what the pod itself says, so that the
    /// admission webhook gives the same answers.
    ///
    /// The caller adds what is known of the namespace.
    pub(crate) fn request(&self) -> PodRequest {
        let namespace = self.deployment.pointer("/metadata/namespace");
        let template = self.deployment.pointer("/spec/template");
        let of_pod = PodRequest::of_pod(template.unwrap_or(&Value::Null));
        PodRequest {
            namespace: namespace
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            // All of them are in the selector.
            selector: of_pod.labels.keys().cloned().collect::<Arc<[String]>>(),
            ..of_pod
        }
    }
}

/// Puts the pod that the chain made back into the Deployment, if it is a tunnel still, and adds our hashes.
pub(crate) fn finish(tunnel: &Tunnel, mutated: &MutatedPod) -> Result<Finished, ResultProblem> {
    let mut object = put_back(tunnel, mutated.pod.clone())?;
    let template = object.pointer(TEMPLATE).unwrap_or(&Value::Null);
    let template_hash = naming::of_json(template);
    let annotations = &mut object["metadata"]["annotations"];
    annotations[annotation::INPUT_HASH] = tunnel.input_hash.as_str().into();
    annotations[annotation::TEMPLATE_HASH] = template_hash.as_str().into();
    Ok(Finished {
        object,
        template_hash,
        chain: mutated.chain.clone(),
    })
}

/// Puts the pod that the chain made back into the Deployment. The chain's annotations go to the Deployment itself.
pub(super) fn put_back(tunnel: &Tunnel, mut pod: Value) -> Result<Value, ResultProblem> {
    check(tunnel, &pod)?;
    let stamps = take_stamps(&mut pod);
    let mut template = Map::new();
    for part in PARTS {
        let value = pod.get_mut(part).map(Value::take);
        template.insert(part.to_owned(), value.ok_or(ResultProblem::NoPod)?);
    }
    let mut object = tunnel.deployment.clone();
    object["spec"]["template"] = template.into();
    if !stamps.is_empty() {
        object["metadata"]["annotations"] = stamps.into_iter().collect();
    }
    Ok(object)
}

/// Whether the Deployment can have such pods.
fn check(tunnel: &Tunnel, pod: &Value) -> Result<(), ResultProblem> {
    let labels = pod.pointer("/metadata/labels");
    let wanted = tunnel.deployment.pointer("/spec/selector/matchLabels");
    for (key, value) in wanted.and_then(Value::as_object).into_iter().flatten() {
        if labels.and_then(|labels| labels.get(key)) != Some(value) {
            return Err(ResultProblem::Label(key.clone()));
        }
    }
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let is_client = |container: &Value| container.get("name").is_some_and(|it| it == CONTAINER);
    if !containers.into_iter().flatten().any(is_client) {
        return Err(ResultProblem::NoContainer);
    }
    match pod.pointer("/spec/restartPolicy").and_then(Value::as_str) {
        None | Some("Always") => Ok(()),
        Some(other) => Err(ResultProblem::RestartPolicy(other.to_owned())),
    }
}

/// Removes the chain's annotations from a pod, and returns them.
fn take_stamps(pod: &mut Value) -> Vec<(String, Value)> {
    let Some(Value::Object(metadata)) = pod.get_mut("metadata") else {
        return Vec::new();
    };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return Vec::new();
    };
    let taken = STAMPS
        .iter()
        .filter_map(|key| annotations.remove_entry(*key));
    let taken = taken.collect();
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    taken
}

fn controller(expose: &ObjectMeta) -> Option<OwnerReference> {
    let resource = PortalExpose::resource();
    Some(OwnerReference {
        api_version: resource.api_version,
        kind: resource.kind,
        name: expose.name.clone()?,
        uid: expose.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}

fn strategy(rollout: TunnelRollout) -> DeploymentStrategy {
    let (surge, unavailable) = match rollout {
        // A new pod beside the old one would fight it for the hostname.
        TunnelRollout::Replace => (IntOrString::Int(0), IntOrString::Int(1)),
        TunnelRollout::Surge => {
            let quarter = IntOrString::String("25%".to_owned());
            (quarter.clone(), quarter)
        }
    };
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(surge),
            max_unavailable: Some(unavailable),
        }),
    }
}

fn seconds(settings: &TunnelSettings) -> i32 {
    i32::try_from(settings.progress_deadline.as_secs()).unwrap_or(i32::MAX)
}

// The pod template of a tunnel.

/// The user and group of the client's image that is no root.
const USER: i64 = 65_532;
/// How long a client may take to end its connections.
const GRACE: i64 = 30;
/// Where the client may write. Clients before 2.4 save their key in the working directory, and exit if they cannot.
const DIRECTORY: &str = "/identity";
/// The name of the volume there.
const VOLUME: &str = "identity";
/// Where the client serves metrics.
const METRICS_PORT: i32 = 9090;

/// The template with these labels.
fn template(inputs: &Inputs<'_>, labels: BTreeMap<String, String>) -> PodTemplateSpec {
    let checksum = inputs.identity_checksum.map(|checksum| {
        let key = annotation::IDENTITY_CHECKSUM.to_owned();
        BTreeMap::from([(key, checksum.to_owned())])
    });
    let class = &inputs.class.spec;
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: checksum,
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            termination_grace_period_seconds: Some(GRACE),
            node_selector: class.node_selector.clone(),
            tolerations: class.tolerations.clone(),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(USER),
                run_as_group: Some(USER),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    localhost_profile: None,
                }),
                ..PodSecurityContext::default()
            }),
            containers: vec![client(inputs)],
            volumes: Some(vec![Volume {
                name: VOLUME.to_owned(),
                empty_dir: Some(EmptyDirVolumeSource {
                    medium: None,
                    size_limit: Some(Quantity("1Mi".to_owned())),
                }),
                ..Volume::default()
            }]),
            ..PodSpec::default()
        }),
    }
}

fn client(inputs: &Inputs<'_>) -> Container {
    let client = &inputs.class.client;
    let has_metrics = client.version >= ClientVersion::WITH_METRICS;
    let metrics = ContainerPort {
        name: Some("metrics".to_owned()),
        container_port: METRICS_PORT,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    Container {
        name: CONTAINER.to_owned(),
        image: Some(client.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(arguments(inputs, has_metrics)),
        working_dir: Some(DIRECTORY.to_owned()),
        env: Some(vec![identity(inputs)]),
        ports: has_metrics.then(|| vec![metrics]),
        liveness_probe: has_metrics.then(liveness),
        resources: Some(resources(inputs.class.spec.size)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                add: None,
                drop: Some(vec!["ALL".to_owned()]),
            }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![VolumeMount {
            name: VOLUME.to_owned(),
            mount_path: DIRECTORY.to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

/// The client exits if it does not know a flag, takes only the last of several --relays, and knows no wss.
fn arguments(inputs: &Inputs<'_>, has_metrics: bool) -> Vec<String> {
    let PortalExposeSpec { app, .. } = &inputs.expose.spec;
    let namespace = inputs.expose.metadata.namespace.as_deref();
    let service = &app.service;
    let address = format!(
        "{}.{}.svc:{}",
        service.name,
        namespace.unwrap_or_default(),
        service.port
    );
    let relays: Vec<String> = inputs.targets.iter().map(|it| it.authority.url()).collect();
    let relays = relays.join(",");
    let mut arguments = vec![
        "expose",
        &address,
        "--relays",
        &relays,
        // It would connect to relays that nobody asked for.
        "--discovery=false",
        "--name",
        &app.name,
    ];
    let metrics = format!(":{METRICS_PORT}");
    if has_metrics {
        arguments.extend(["--metrics-addr", &metrics]);
    }
    arguments.into_iter().map(str::to_owned).collect()
}

fn identity(inputs: &Inputs<'_>) -> EnvVar {
    let name = inputs.expose.metadata.name.as_deref().unwrap_or_default();
    EnvVar {
        name: "IDENTITY_JSON".to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: naming::secret_name(name),
                key: IDENTITY_KEY.to_owned(),
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
    }
}

/// There is no readiness probe: whether a tunnel serves, its relays know.
fn liveness() -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/metrics".to_owned()),
            port: IntOrString::String("metrics".to_owned()),
            ..HTTPGetAction::default()
        }),
        initial_delay_seconds: Some(10),
        period_seconds: Some(30),
        timeout_seconds: Some(5),
        failure_threshold: Some(6),
        ..Probe::default()
    }
}

fn resources(size: TunnelSize) -> ResourceRequirements {
    let (requests, limits) = match size {
        TunnelSize::Small => (["100m", "128Mi"], ["500m", "512Mi"]),
        TunnelSize::Medium => (["250m", "256Mi"], ["1", "1Gi"]),
        TunnelSize::Large => (["500m", "512Mi"], ["2", "2Gi"]),
    };
    let quantities = |[cpu, memory]: [&str; 2]| {
        let pairs = [("cpu", cpu), ("memory", memory)];
        let pairs = pairs.map(|(name, text)| (name.to_owned(), Quantity(text.to_owned())));
        Some(BTreeMap::from(pairs))
    };
    ResourceRequirements {
        requests: quantities(requests),
        limits: quantities(limits),
        claims: None,
    }
}

#[cfg(test)]
mod tests;
