//! The Deployment of a tunnel: pure, and the same bytes for the same input.
//!
//! 1. [`tunnel`] makes the Deployment. Its pod template goes through the plugin chain as a Pod without name.
//! 2. [`finish`] puts the result back and adds the hashes by which a later pass sees whether anything has changed.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use podloom_api::names::portal::{CONTAINER, IDENTITY_KEY, annotation};
use podloom_api::{PortalExposeObject, TunnelRollout, TunnelSize, names};
use podloom_mutation::{MutatedPod, PodRequest, remarks};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::check::Authority;
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

/// A Deployment before the chain.
#[derive(Clone, PartialEq)]
pub(crate) struct Tunnel {
    /// The Deployment, without our hashes.
    pub deployment: Value,
    /// The hash of the Deployment. It is equal as long as nothing that is rendered changes.
    pub input_hash: String,
}

/// A Deployment after the chain, ready to be applied. It may have secrets that plugins wrote.
#[derive(Clone, PartialEq, Serialize)]
pub(crate) struct Rendered {
    /// The hash of what went in.
    #[serde(skip)]
    pub input: String,
    /// The Deployment.
    #[serde(skip)]
    pub object: Value,
    /// The hash of its pod template.
    #[serde(skip)]
    pub template_hash: String,
    /// The digest of the chain; none without a chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// What plugins say about it.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl fmt::Debug for Tunnel {
    /// Without the Deployment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel")
            .field("input_hash", &self.input_hash)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Rendered {
    /// Without the Deployment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendered")
            .field("template_hash", &self.template_hash)
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// What the chain did that makes the pod no tunnel. The display is a sentence about the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTunnel {
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

/// Makes the Deployment of a tunnel to these relays. The checksum is the hash of the identity in its Secret; none if that is not known.
///
/// A PortalExpose without UID, as files have it, owns nothing. What is missing is left out and not null: each byte is in the hash.
pub(crate) fn tunnel(
    expose: &PortalExposeObject,
    targets: &[Authority],
    class: &Class,
    identity_checksum: Option<&str>,
    settings: &TunnelSettings,
) -> Tunnel {
    let metadata = &expose.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let labels = naming::labels(name);
    let metadata = ObjectMeta {
        name: Some(naming::deployment_name(name)),
        namespace: metadata.namespace.clone(),
        labels: Some(labels.clone()),
        owner_references: naming::owner(metadata).map(|owner| {
            vec![OwnerReference {
                controller: Some(true),
                block_owner_deletion: Some(true),
                ..owner
            }]
        }),
        ..ObjectMeta::default()
    };
    let (surge, unavailable) = match class.spec.rollout {
        // A new pod beside the old one would fight it for the hostname.
        TunnelRollout::Replace => (json!(0), json!(1)),
        TunnelRollout::Surge => (json!("25%"), json!("25%")),
    };
    let deadline = settings.progress_deadline.as_secs();
    let mut deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": class.spec.replicas,
            "progressDeadlineSeconds": i32::try_from(deadline).unwrap_or(i32::MAX),
            "revisionHistoryLimit": REVISIONS,
            "selector": { "matchLabels": labels },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable },
            },
            "template": {
                "metadata": { "labels": labels },
                "spec": pod(expose, targets, class),
            },
        },
    });
    if let Some(checksum) = identity_checksum {
        let metadata = &mut deployment["spec"]["template"]["metadata"];
        metadata["annotations"] = json!({ annotation::IDENTITY_CHECKSUM: checksum });
    }
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
pub(crate) fn finish(tunnel: &Tunnel, mutated: MutatedPod) -> Result<Rendered, NoTunnel> {
    let notes = remarks(&mutated.runs);
    let mut object = put_back(tunnel, mutated.pod)?;
    let template = object.pointer(TEMPLATE).unwrap_or(&Value::Null);
    let template_hash = naming::of_json(template);
    let annotations = &mut object["metadata"]["annotations"];
    annotations[annotation::INPUT_HASH] = tunnel.input_hash.as_str().into();
    annotations[annotation::TEMPLATE_HASH] = template_hash.as_str().into();
    Ok(Rendered {
        input: tunnel.input_hash.clone(),
        object,
        template_hash,
        chain: mutated.chain,
        notes,
    })
}

/// Puts the pod that the chain made back into the Deployment. The chain's annotations go to the Deployment itself.
pub(super) fn put_back(tunnel: &Tunnel, mut pod: Value) -> Result<Value, NoTunnel> {
    check(tunnel, &pod)?;
    let stamps = take_stamps(&mut pod);
    let mut template = Map::new();
    for part in PARTS {
        let value = pod.get_mut(part).map(Value::take);
        template.insert(part.to_owned(), value.ok_or(NoTunnel::NoPod)?);
    }
    let mut object = tunnel.deployment.clone();
    object["spec"]["template"] = template.into();
    if !stamps.is_empty() {
        object["metadata"]["annotations"] = stamps.into_iter().collect();
    }
    Ok(object)
}

/// Whether the Deployment can have such pods.
fn check(tunnel: &Tunnel, pod: &Value) -> Result<(), NoTunnel> {
    let labels = pod.pointer("/metadata/labels");
    let wanted = tunnel.deployment.pointer("/spec/selector/matchLabels");
    for (key, value) in wanted.and_then(Value::as_object).into_iter().flatten() {
        if labels.and_then(|labels| labels.get(key)) != Some(value) {
            return Err(NoTunnel::Label(key.clone()));
        }
    }
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let is_client = |container: &Value| container.get("name").is_some_and(|it| it == CONTAINER);
    if !containers.into_iter().flatten().any(is_client) {
        return Err(NoTunnel::NoContainer);
    }
    match pod.pointer("/spec/restartPolicy").and_then(Value::as_str) {
        None | Some("Always") => Ok(()),
        Some(other) => Err(NoTunnel::RestartPolicy(other.to_owned())),
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

/// The spec of the pods.
fn pod(expose: &PortalExposeObject, targets: &[Authority], class: &Class) -> Value {
    let mut pod = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": GRACE,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [client(expose, targets, class)],
        "volumes": [{ "name": VOLUME, "emptyDir": { "sizeLimit": "1Mi" } }],
    });
    if let Some(selector) = &class.spec.node_selector {
        pod["nodeSelector"] = json!(selector);
    }
    if let Some(tolerations) = &class.spec.tolerations {
        pod["tolerations"] = json!(tolerations);
    }
    pod
}

fn client(expose: &PortalExposeObject, targets: &[Authority], class: &Class) -> Value {
    let has_metrics = class.client.version >= ClientVersion::WITH_METRICS;
    let secret = naming::secret_name(expose.metadata.name.as_deref().unwrap_or_default());
    let key = json!({ "name": secret, "key": IDENTITY_KEY });
    let mut client = json!({
        "name": CONTAINER,
        "image": class.client.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments(expose, targets, has_metrics),
        "workingDir": DIRECTORY,
        "env": [{ "name": "IDENTITY_JSON", "valueFrom": { "secretKeyRef": key } }],
        "resources": resources(class.spec.size),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [{ "name": VOLUME, "mountPath": DIRECTORY }],
    });
    if has_metrics {
        client["ports"] =
            json!([{ "name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP" }]);
        // There is no readiness probe: whether a tunnel serves, its relays know.
        client["livenessProbe"] = json!({
            "httpGet": { "path": "/metrics", "port": "metrics" },
            "initialDelaySeconds": 10,
            "periodSeconds": 30,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        });
    }
    client
}

/// The client exits if it does not know a flag, takes only the last of several --relays, and knows no wss.
fn arguments(expose: &PortalExposeObject, targets: &[Authority], has_metrics: bool) -> Vec<String> {
    let app = &expose.spec.app;
    let namespace = expose.metadata.namespace.as_deref();
    let service = &app.service;
    let address = format!(
        "{}.{}.svc:{}",
        service.name,
        namespace.unwrap_or_default(),
        service.port
    );
    let relays: Vec<String> = targets.iter().map(Authority::url).collect();
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

fn resources(size: TunnelSize) -> Value {
    let ([cpu, memory], [most_cpu, most_memory]) = match size {
        TunnelSize::Small => (["100m", "128Mi"], ["500m", "512Mi"]),
        TunnelSize::Medium => (["250m", "256Mi"], ["1", "1Gi"]),
        TunnelSize::Large => (["500m", "512Mi"], ["2", "2Gi"]),
    };
    json!({
        "requests": { "cpu": cpu, "memory": memory },
        "limits": { "cpu": most_cpu, "memory": most_memory },
    })
}

#[cfg(test)]
mod tests;
