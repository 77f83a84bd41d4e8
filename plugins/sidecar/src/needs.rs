//! The paths that a configuration needs, and no others.

use podloom_plugin_sdk::Needs;

use crate::config::{Config, Placement, Position};
use crate::containers::DEFAULT_CONTAINER;
use crate::decide;
use crate::lists::List;
use crate::record::INJECTED;
use crate::text::element;
use crate::volumes::{self, volume_path};

pub(crate) const PULL_SECRETS: &str = "/spec/imagePullSecrets";

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
    writes.extend(volumes::names(config).iter().map(|name| volume_path(name)));
    for secret in &config.image_pull_secrets {
        let place = element(PULL_SECRETS, "name", secret.string("name"));
        writes.push(place);
    }
    for container in targets(config) {
        for variable in &config.add_to_containers.env {
            let place = element(
                &[&container, "/env"].concat(),
                "name",
                variable.string("name"),
            );
            writes.push(place);
        }
        for mount in &config.add_to_containers.volume_mounts {
            let place = element(
                &[&container, "/volumeMounts"].concat(),
                "mountPath",
                mount.string("mountPath"),
            );
            writes.push(place);
        }
    }
    writes.extend_from_slice(&config.retired);
    writes
}

/// What is looked at before anything is written.
pub(crate) fn fields(config: &Config) -> Vec<&'static str> {
    let mut fields = vec![
        decide::MIRROR,
        INJECTED,
        decide::INJECT_ANNOTATION,
        decide::INJECT_LABEL,
        decide::OS,
        decide::NODE_OS,
        decide::HOST_NETWORK,
        "/spec/containers/*/name",
        "/spec/initContainers/*/name",
        "/spec/ephemeralContainers/*/name",
    ];
    if decide::has_selectors(config) {
        fields.push(decide::LABELS);
    }
    let concurrent = || {
        config
            .containers
            .iter()
            .filter(|sidecar| sidecar.placement != Placement::Init)
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
        fields.push("/spec/imagePullSecrets/*/name");
    }
    fields
}

fn reads(config: &Config) -> Vec<String> {
    let mut reads = fields(config);
    // What is written may be read.
    reads.retain(|path| *path != INJECTED);
    if !volumes::names(config).is_empty() || !config.retired.is_empty() {
        reads.extend([
            "/spec/containers/*/volumeMounts",
            "/spec/containers/*/volumeDevices",
            "/spec/initContainers/*/volumeMounts",
            "/spec/initContainers/*/volumeDevices",
        ]);
    } else if !config.add_to_containers.volume_mounts.is_empty() {
        reads.push("/spec/containers/*/volumeMounts");
    }
    let mounts = |key: &str| {
        config
            .containers
            .iter()
            .any(|sidecar| sidecar.container.has(key))
    };
    if mounts("volumeMounts")
        || mounts("volumeDevices")
        || !config.add_to_containers.volume_mounts.is_empty()
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
#[inline(never)]
pub(crate) fn covers(grant: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    grant.split('/').all(|granted| {
        segments
            .next()
            .is_some_and(|segment| granted == segment || granted == "*")
    })
}
