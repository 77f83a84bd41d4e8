//! What is read of a pod before anything is written, in one call.

use std::collections::BTreeMap;

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::prelude::*;
use podloom_plugin_sdk::{evictable, path};

use crate::config::{
    Config, DEFAULT_CONTAINER, INJECTED, List, PULL_SECRETS, Placement, Position, VolumeNames,
    volume_path,
};

/// The parts of a pod that the configuration makes the plugin look at, as they were before it wrote anything.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct View {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    /// All labels if there are selectors, else only our own.
    pub(crate) labels: BTreeMap<String, String>,
    /// Only those that matter here.
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) os: Os,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) host_network: bool,
    pub(crate) restart_policy: String,
    pub(crate) image_pull_secrets: Vec<Object>,
    pub(crate) priority: Value,
    /// The three lists, kept up with what is injected.
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    ephemeral_containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Os {
    pub(crate) name: Option<String>,
}

/// What is known of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) restart_policy: String,
    pub(crate) ports: Value,
}

impl View {
    pub(crate) fn read(config: &Config, pod: &Pod) -> Result<Self, Error> {
        Ok(pod.view("", &config.fields)?.unwrap_or_default())
    }
}

impl Spec {
    pub(crate) fn list(&self, list: List) -> &[Container] {
        match list {
            List::Containers => &self.containers,
            List::InitContainers => &self.init_containers,
            List::EphemeralContainers => &self.ephemeral_containers,
        }
    }

    pub(crate) fn list_mut(&mut self, list: List) -> &mut Vec<Container> {
        match list {
            List::Containers => &mut self.containers,
            List::InitContainers => &mut self.init_containers,
            List::EphemeralContainers => &mut self.ephemeral_containers,
        }
    }

    pub(crate) fn has(&self, list: List, name: &str) -> bool {
        let mut containers = self.list(list).iter();
        containers.any(|container| container.name == name)
    }
}

/// The fields to read with this configuration.
pub(crate) fn fields(config: &Config) -> Vec<&'static str> {
    let mut fields = vec![
        "/metadata/annotations/kubernetes.io~1config.mirror",
        INJECTED,
        "/metadata/annotations/sidecar.podloom.dev~1inject",
        "/metadata/labels/sidecar.podloom.dev~1inject",
        "/spec/os/name",
        "/spec/nodeSelector/kubernetes.io~1os",
        "/spec/hostNetwork",
        "/spec/containers/*/name",
        "/spec/initContainers/*/name",
        "/spec/ephemeralContainers/*/name",
    ];
    if !config.never_inject.is_empty() || !config.always_inject.is_empty() {
        fields.push("/metadata/labels");
    }
    let concurrent = || {
        let containers = config.containers.iter();
        containers.filter(|sidecar| sidecar.placement != Placement::Init)
    };
    if concurrent().any(|sidecar| sidecar.container.has("ports")) {
        fields.extend([
            "/spec/containers/*/ports",
            "/spec/initContainers/*/ports",
            "/spec/initContainers/*/restartPolicy",
        ]);
    }
    if concurrent().any(|sidecar| sidecar.placement == Placement::Classic) {
        fields.push("/spec/restartPolicy");
    }
    if !config.image_pull_secrets.is_empty() {
        fields.extend(["/spec/imagePullSecrets/*/name", "/spec/priority"]);
    }
    fields
}

/// The paths that a configuration needs, and no others.
pub(crate) fn needs(config: &Config) -> Needs {
    Needs {
        reads: reads(config),
        writes: writes(config),
    }
}

pub(crate) fn writes(config: &Config) -> Vec<String> {
    let mut writes = vec![INJECTED.to_owned()];
    writes.extend(config.containers.iter().map(|sidecar| sidecar.path()));
    if config.containers.iter().any(|sidecar| {
        // Only these can come before the container that `kubectl exec` means.
        sidecar.placement == Placement::Classic
            && matches!(sidecar.position(), Position::First | Position::Before(_))
    }) {
        writes.push(DEFAULT_CONTAINER.to_owned());
    }
    writes.extend(VolumeNames::of(config).all(config).map(volume_path));
    for secret in &config.image_pull_secrets {
        writes.push(path::element(PULL_SECRETS, "name", secret.text("name")));
    }
    let additions = &config.add_to_containers;
    for container in targets(config) {
        let list = path::field(&container, "env");
        for variable in &additions.env {
            writes.push(path::element(&list, "name", variable.text("name")));
        }
        let list = path::field(&container, "volumeMounts");
        for mount in &additions.volume_mounts {
            writes.push(path::element(&list, "mountPath", mount.text("mountPath")));
        }
    }
    if config.safe_to_evict == Some(true) {
        writes.push(evictable::PATH.to_owned());
    }
    writes.extend_from_slice(&config.retired);
    writes
}

fn reads(config: &Config) -> Vec<String> {
    let mut reads = fields(config);
    // What is written may be read.
    reads.retain(|path| *path != INJECTED);
    let adds_mounts = !config.add_to_containers.volume_mounts.is_empty();
    if VolumeNames::of(config).all(config).next().is_some() || !config.retired.is_empty() {
        reads.extend([
            "/spec/containers/*/volumeMounts",
            "/spec/containers/*/volumeDevices",
            "/spec/initContainers/*/volumeMounts",
            "/spec/initContainers/*/volumeDevices",
        ]);
    } else if adds_mounts {
        reads.push("/spec/containers/*/volumeMounts");
    }
    let mut containers = config.containers.iter().map(|sidecar| &sidecar.container);
    if adds_mounts
        || containers
            .any(|container| container.has("volumeMounts") || container.has("volumeDevices"))
    {
        reads.push("/spec/volumes/*/name");
    }
    reads.into_iter().map(str::to_owned).collect()
}

/// The containers that are added to.
fn targets(config: &Config) -> Vec<String> {
    match config.add_to_containers.names.as_slice() {
        [] => vec!["/spec/containers/*".to_owned()],
        names => names
            .iter()
            .map(|name| List::Containers.element(name))
            .collect(),
    }
}

/// Whether a grant covers a path that names its elements by key.
pub(crate) fn covers(grant: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    grant.split('/').all(|granted| {
        segments
            .next()
            .is_some_and(|segment| granted == segment || granted == "*")
    })
}
