//! The paths that a configuration needs, and no others.

use podloom_plugin_sdk::{Needs, evictable, path};

use crate::config::{Config, Placement, Position, VolumeNames};
use crate::lists::List;
use crate::names::{DEFAULT_CONTAINER, PULL_SECRETS, volume_path};
use crate::record::INJECTED;
use crate::view;

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
    let mut reads = view::fields(config);
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
