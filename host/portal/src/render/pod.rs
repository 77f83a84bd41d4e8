//! The pod template of a tunnel.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource,
    HTTPGetAction, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
    SeccompProfile, SecretKeySelector, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use podloom_api::names::portal::{CONTAINER, IDENTITY_KEY, annotation};
use podloom_api::{PortalExposeSpec, TunnelSize};

use super::Inputs;
use crate::naming;
use crate::version::ClientVersion;

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
pub(super) fn template(inputs: &Inputs<'_>, labels: BTreeMap<String, String>) -> PodTemplateSpec {
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
