//! Names and paths of what may be injected besides containers.

use std::collections::BTreeSet;

use podloom_plugin_sdk::path;

use crate::config::{Config, OnVolumeConflict, VolumeNames};
use crate::record::hash;

pub(crate) const PULL_SECRETS: &str = "/spec/imagePullSecrets";

/// Names the container that `kubectl exec` means.
pub(crate) const DEFAULT_CONTAINER: &str =
    "/metadata/annotations/kubectl.kubernetes.io~1default-container";

/// Names of volumes are DNS labels.
const NAME_LENGTH: usize = 63;

impl VolumeNames {
    pub(crate) fn of(config: &Config) -> Self {
        let configured = config.volumes.iter().map(|volume| volume.text("name"));
        let mut taken = BTreeSet::new();
        taken.extend(configured.map(str::to_owned));
        let with_token = config.containers.iter();
        let with_token = with_token.filter(|sidecar| sidecar.token.is_some());
        let mut names = Self::default();
        for sidecar in with_token {
            let name = free(sidecar.name(), "-token", &mut taken);
            names.tokens.push((sidecar.name().to_owned(), name));
        }
        if config.on_volume_conflict == OnVolumeConflict::Rename {
            let first: Vec<String> = names.all(config).map(str::to_owned).collect();
            for name in first {
                let second = free(&name, "-podloom", &mut taken);
                names.second.push((name, second));
            }
        }
        names
    }

    /// All names that volumes may get in a pod.
    pub(crate) fn all<'n>(&'n self, config: &'n Config) -> impl Iterator<Item = &'n str> {
        let configured = config.volumes.iter().map(|volume| volume.text("name"));
        let others = self.tokens.iter().chain(&self.second);
        configured.chain(others.map(|(_, name)| name.as_str()))
    }

    /// The name of the volume that holds a container's token.
    pub(crate) fn token(&self, container: &str) -> &str {
        of(&self.tokens, container)
    }

    /// The name of an injected volume whose own name is taken.
    pub(crate) fn second(&self, name: &str) -> &str {
        of(&self.second, name)
    }
}

fn of<'n>(names: &'n [(String, String)], key: &str) -> &'n str {
    let found = names.iter().find(|(known, _)| known == key);
    found.map_or("", |(_, name)| name)
}

/// The path of the volume of this name.
pub(crate) fn volume_path(name: &str) -> String {
    path::element("/spec/volumes", "name", name)
}

/// A name with a suffix, cut if it would be too long. If another one has that name already, it gets a fingerprint of the whole name.
fn free(name: &str, suffix: &str, taken: &mut BTreeSet<String>) -> String {
    let short = suffixed(name, suffix);
    let free = match taken.contains(&short) {
        false => short,
        true => suffixed(name, &format!("-{}{suffix}", hash::of_text(name))),
    };
    taken.insert(free.clone());
    free
}

fn suffixed(name: &str, suffix: &str) -> String {
    let end = name.len().min(NAME_LENGTH - suffix.len());
    format!("{}{suffix}", name.get(..end).unwrap_or(name))
}
