//! The volumes of the injected containers, and their mounts.

use podloom_plugin_sdk::Error;

use crate::config::{Config, OnVolumeConflict, Token};
use crate::containers::{Act, Step};
use crate::injection::{Injection, Put};
use crate::json::{Object, equal, quote};
use crate::text::{self, decimal, element, note};

/// What the kubelet mounts read-only anyway.
const READ_ONLY: [&str; 4] = ["configMap", "secret", "projected", "downwardAPI"];

/// Names of Kubernetes objects that are DNS labels.
const NAME_LENGTH: usize = 63;

/// What mounts must know about the volumes.
pub(crate) struct Volumes {
    /// Configured names, and the names in this pod.
    renames: Vec<(String, String)>,
    /// Configured names of those that cannot be written to.
    read_only: Vec<String>,
}

impl Volumes {
    /// Gives the mount of a configured volume its name in this pod, and makes it read-only where that changes nothing.
    pub(crate) fn adapt(&self, mount: &mut Object) {
        let name = mount.string("name");
        if self.read_only.iter().any(|known| known == name) {
            mount.fill("readOnly", "true");
        }
        self.rename(mount);
    }

    pub(crate) fn rename(&self, mount: &mut Object) {
        let name = mount.string("name");
        if let Some((_, new)) = self.renames.iter().find(|(old, _)| old == name) {
            mount.set("name", &quote(new));
        }
    }
}

/// Adds the volumes that the containers and the additions need.
pub(crate) fn add(injection: &mut Injection<'_>, steps: &[Step<'_>]) -> Result<Volumes, Error> {
    let config = injection.config;
    let mut volumes = Volumes {
        renames: Vec::new(),
        read_only: Vec::new(),
    };
    for volume in &config.volumes {
        let name = volume.string("name");
        place(injection, &mut volumes, name, volume.clone())?;
        if READ_ONLY.iter().any(|source| volume.has(source)) {
            volumes.read_only.push(name.to_owned());
        }
    }
    for step in steps {
        if let Some(token) = &step.sidecar.token {
            place(
                injection,
                &mut volumes,
                &token_name(step.name),
                token_volume(step.name, token),
            )?;
        }
    }
    check_mounts(injection, steps)?;
    Ok(volumes)
}

#[inline(never)]
fn place(
    injection: &mut Injection<'_>,
    volumes: &mut Volumes,
    name: &str,
    mut volume: Object,
) -> Result<(), Error> {
    let Put::Theirs(theirs) = injection.put(volume_path(name), &volume.text())? else {
        return Ok(());
    };
    if is_same_source(&volume, &theirs) {
        return Ok(());
    }
    let conflict = [
        "the pod has a volume ",
        name,
        " with another source than the injected one",
    ]
    .concat();
    if injection.config.on_volume_conflict == OnVolumeConflict::Deny {
        text::push(&mut injection.denials, &[&conflict, ": rename it"]);
        return Ok(());
    }
    let new = renamed(name);
    volume.set("name", &quote(&new));
    if let Put::Theirs(theirs) = injection.put(volume_path(&new), &volume.text())?
        && !is_same_source(&volume, &theirs)
    {
        text::push(
            &mut injection.denials,
            &[&conflict, ", and so has ", &new, ": rename one of them"],
        );
        return Ok(());
    }
    note(&[&conflict, ", which is named ", &new]);
    volumes.renames.push((name.to_owned(), new));
    Ok(())
}

/// Whether the pod's volume is what ours would be. Without a source it becomes an emptyDir.
fn is_same_source(ours: &Object, theirs: &str) -> bool {
    let Some(mut theirs) = Object::parse(theirs) else {
        return false;
    };
    let mut ours = ours.clone();
    for volume in [&mut ours, &mut theirs] {
        if volume.fields().count() == 1 {
            volume.set("emptyDir", "{}");
        }
    }
    equal(&ours.text(), &theirs.text())
}

/// Denies a pod in which a mount would lead nowhere.
#[inline(never)]
fn check_mounts(injection: &mut Injection<'_>, steps: &[Step<'_>]) -> Result<(), Error> {
    let config = injection.config;
    let mut mounts = config.add_to_containers.volume_mounts.clone();
    for step in steps.iter().filter(|step| step.act != Act::Keep) {
        mounts.append(&mut step.sidecar.container.objects("volumeMounts"));
        mounts.append(&mut step.sidecar.container.objects("volumeDevices"));
    }
    for name in mounts.iter().map(|mount| mount.string("name")) {
        let is_configured = config
            .volumes
            .iter()
            .any(|volume| volume.string("name") == name);
        if !is_configured
            && injection
                .pod
                .get_json(&[&volume_path(name), "/name"].concat())?
                .is_none()
        {
            text::push(
                &mut injection.denials,
                &[
                    "an injected mount needs the volume ",
                    name,
                    ", which the pod does not have: add it, or opt out of the injection",
                ],
            );
        }
    }
    Ok(())
}

/// The names that volumes may get in a pod, by this configuration.
pub(crate) fn names(config: &Config) -> Vec<String> {
    let mut names: Vec<String> = config
        .volumes
        .iter()
        .map(|volume| volume.string("name").to_owned())
        .collect();
    let with_token = config
        .containers
        .iter()
        .filter(|sidecar| sidecar.token.is_some());
    names.extend(with_token.map(|sidecar| token_name(sidecar.name())));
    if config.on_volume_conflict == OnVolumeConflict::Rename {
        let renamed: Vec<String> = names.iter().map(|name| renamed(name)).collect();
        names.extend(renamed);
    }
    names
}

#[inline(never)]
pub(crate) fn volume_path(name: &str) -> String {
    element("/spec/volumes", "name", name)
}

/// The volume that holds a container's token.
pub(crate) fn token_name(container: &str) -> String {
    suffixed(container, "-token")
}

fn renamed(name: &str) -> String {
    suffixed(name, "-podloom")
}

#[inline(never)]
fn suffixed(name: &str, suffix: &str) -> String {
    let end = name.len().min(NAME_LENGTH - suffix.len());
    [name.get(..end).unwrap_or(name), suffix].concat()
}

fn token_volume(container: &str, token: &Token) -> Object {
    let projection = [
        "{\"sources\":[{\"serviceAccountToken\":{\"audience\":",
        &quote(&token.audience),
        ",\"expirationSeconds\":",
        &decimal(token.expiration_seconds as usize),
        ",\"path\":\"token\"}}]}",
    ]
    .concat();
    let mut volume = Object::default();
    volume.set("name", &quote(&token_name(container)));
    volume.set("projected", &projection);
    volume
}
