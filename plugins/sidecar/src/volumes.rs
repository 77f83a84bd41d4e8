//! The volumes of the injected containers, and their mounts.

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::prelude::*;

use crate::config::{OnVolumeConflict, Token, VolumeNames, volume_path};
use crate::injection::{Injection, same};
use crate::plan::{Act, Step};

/// What the kubelet mounts read-only anyway.
const READ_ONLY: [&str; 4] = ["configMap", "secret", "projected", "downwardAPI"];

/// What mounts must know about the volumes.
pub(crate) struct Volumes<'c> {
    /// What they are called.
    pub(crate) names: &'c VolumeNames,
    /// Configured names, and the names in this pod.
    renames: Vec<(String, String)>,
    /// Configured names of those that cannot be written to.
    read_only: Vec<String>,
}

impl Volumes<'_> {
    /// Gives the mount of a configured volume its name in this pod, and makes it read-only where that changes nothing.
    pub(crate) fn adapt(&self, mount: &mut Object) {
        let mut read_only = self.read_only.iter();
        if read_only.any(|known| known == mount.text("name")) {
            mount.set_if_absent("readOnly", true);
        }
        self.rename(mount);
    }

    pub(crate) fn rename(&self, mount: &mut Object) {
        let mut renames = self.renames.iter();
        if let Some((_, new)) = renames.find(|(old, _)| old == mount.text("name")) {
            mount.set("name", new.as_str());
        }
    }
}

/// Adds the volumes that the containers and the additions need.
pub(crate) fn add<'c>(
    injection: &mut Injection<'c>,
    steps: &[Step<'_>],
) -> Result<Volumes<'c>, Error> {
    let mut volumes = Volumes {
        names: &injection.config.volume_names,
        renames: Vec::new(),
        read_only: Vec::new(),
    };
    for volume in &injection.config.volumes {
        place(injection, &mut volumes, volume)?;
        if READ_ONLY.iter().any(|source| volume.has(source)) {
            volumes.read_only.push(volume.text("name").to_owned());
        }
    }
    for step in steps {
        if let Some(token) = &step.sidecar.token {
            let name = injection.config.volume_names.token(step.sidecar.name());
            let volume = token_volume(name, token);
            place(injection, &mut volumes, &volume)?;
        }
    }
    check_mounts(injection, steps)?;
    Ok(volumes)
}

/// Puts a volume into the pod, under another name if its own is taken.
fn place(
    injection: &mut Injection<'_>,
    volumes: &mut Volumes<'_>,
    volume: &Object,
) -> Result<(), Error> {
    if is_placed(injection, volume)? {
        return Ok(());
    }
    let name = volume.text("name");
    let conflict = format!("the pod has a volume {name} with another source than the injected one");
    if injection.config.on_volume_conflict == OnVolumeConflict::Deny {
        injection.denials.push(format!("{conflict}: rename it"));
        return Ok(());
    }
    let new = injection.config.volume_names.second(name).to_owned();
    let mut renamed = volume.clone();
    renamed.set("name", new.as_str());
    if is_placed(injection, &renamed)? {
        note(&format!("{conflict}, which is named {new}"));
        volumes.renames.push((name.to_owned(), new));
    } else {
        let denial = format!("{conflict}, and so has {new}: rename one of them");
        injection.denials.push(denial);
    }
    Ok(())
}

/// Puts a volume into the pod. Returns whether the pod has it now: not if the name belongs to another one.
fn is_placed(injection: &mut Injection<'_>, volume: &Object) -> Result<bool, Error> {
    let path = volume_path(volume.text("name"));
    let value = volume.clone().into();
    if let Some(theirs) = injection.put(path, &value)? {
        return Ok(same(&value, &theirs));
    }
    // One without a source becomes an emptyDir.
    if volume.has("emptyDir") || volume.fields().count() == 1 {
        injection.empty_dirs.push(volume.text("name").to_owned());
    }
    Ok(true)
}

/// Denies a pod in which a mount would lead nowhere.
fn check_mounts(injection: &mut Injection<'_>, steps: &[Step<'_>]) -> Result<(), Error> {
    let config = injection.config;
    let containers = steps
        .iter()
        .filter(|step| step.act != Act::Keep)
        .map(|step| &step.sidecar.container);
    let mounts = containers.flat_map(|container| {
        let mounts = container.objects("volumeMounts");
        mounts.chain(container.objects("volumeDevices"))
    });
    for mount in config.add_to_containers.volume_mounts.iter().chain(mounts) {
        let name = mount.text("name");
        let mut configured = config.volumes.iter();
        if configured.any(|volume| volume.text("name") == name) {
            continue;
        }
        let volume = injection.pod.volume(name);
        if !volume.field("name").exists()? {
            injection.denials.push(format!(
                "an injected mount needs the volume {name}, which the pod does not have: add it, or opt out of the injection"
            ));
        }
    }
    Ok(())
}

fn token_volume(name: &str, token: &Token) -> Object {
    let source = Object::from([
        ("audience", Value::from(token.audience.as_str())),
        (
            "expirationSeconds",
            i64::from(token.expiration_seconds).into(),
        ),
        ("path", "token".into()),
    ]);
    let source = Object::from([("serviceAccountToken", source)]);
    let mut volume = Object::from([("name", name)]);
    volume.set("projected", Object::from([("sources", [source])]));
    volume
}
