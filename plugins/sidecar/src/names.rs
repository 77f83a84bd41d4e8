//! Names and paths of what may be injected besides containers.

use podloom_plugin_sdk::path;

use crate::config::{Config, OnVolumeConflict};

pub(crate) const PULL_SECRETS: &str = "/spec/imagePullSecrets";

/// Names the container that `kubectl exec` means.
pub(crate) const DEFAULT_CONTAINER: &str =
    "/metadata/annotations/kubectl.kubernetes.io~1default-container";

/// Names of volumes are DNS labels.
const NAME_LENGTH: usize = 63;

/// The names that volumes may get in a pod, by this configuration.
pub(crate) fn volumes(config: &Config) -> Vec<String> {
    let configured = config.volumes.iter();
    let mut names: Vec<String> = configured
        .map(|volume| volume.text("name").to_owned())
        .collect();
    let with_token = config
        .containers
        .iter()
        .filter(|sidecar| sidecar.token.is_some());
    names.extend(with_token.map(|sidecar| token(sidecar.name())));
    if config.on_volume_conflict == OnVolumeConflict::Rename {
        let renamed: Vec<String> = names.iter().map(|name| renamed(name)).collect();
        names.extend(renamed);
    }
    names
}

/// The path of the volume of this name.
pub(crate) fn volume_path(name: &str) -> String {
    path::element("/spec/volumes", "name", name)
}

/// The name of the volume that holds a container's token.
pub(crate) fn token(container: &str) -> String {
    suffixed(container, "-token")
}

/// The name of an injected volume whose own name is taken.
pub(crate) fn renamed(name: &str) -> String {
    suffixed(name, "-podloom")
}

fn suffixed(name: &str, suffix: &str) -> String {
    let end = name.len().min(NAME_LENGTH - suffix.len());
    format!("{}{suffix}", name.get(..end).unwrap_or(name))
}
