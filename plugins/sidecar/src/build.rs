//! An injected container: as configured, and what Podloom adds to it.

use std::borrow::Cow;

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::prelude::*;

use crate::config::{Os, Placement, Sidecar, Token};
use crate::security;
use crate::volumes::Volumes;

/// Returns what is injected as far as that is known before there is a pod.
pub(crate) fn complete(sidecar: &Sidecar, os: Os) -> Object {
    let mut container = sidecar.container.clone();
    if sidecar.placement == Placement::Native {
        container.set("restartPolicy", "Always");
    }
    if sidecar.restricted {
        let context = container.get("securityContext").as_object();
        let context = security::complete(context.cloned().unwrap_or_default(), os);
        container.set("securityContext", context);
    }
    container
}

/// Whether the container mounts volumes or devices, whose names depend on the pod.
pub(crate) fn has_mounts(sidecar: &Sidecar) -> bool {
    let container = &sidecar.container;
    sidecar.token.is_some() || container.has("volumeMounts") || container.has("volumeDevices")
}

/// Returns the container as it is injected into this pod, as JSON.
pub(crate) fn json<'s>(sidecar: &'s Sidecar, volumes: &Volumes<'_>) -> Cow<'s, str> {
    match &sidecar.json {
        Some(json) => Cow::Borrowed(json),
        None => Cow::Owned(container(sidecar, volumes).to_json()),
    }
}

/// Notes what is missing in a container that is injected.
pub(crate) fn note_missing(sidecar: &Sidecar) {
    let resources = sidecar.container.get("resources");
    let is_missing = |field: &&str| resources.get(field).is_null();
    let missing: Vec<&str> = ["requests", "limits"]
        .into_iter()
        .filter(is_missing)
        .collect();
    if !missing.is_empty() {
        note(&format!(
            "container {} is injected without resource {}",
            sidecar.name(),
            missing.join(" and ")
        ));
    }
}

/// Returns the container as it is injected into this pod.
pub(crate) fn container(sidecar: &Sidecar, volumes: &Volumes<'_>) -> Object {
    let mut container = sidecar.completed.clone();
    let mut mounts: Vec<Object> = container.objects("volumeMounts").cloned().collect();
    for mount in &mut mounts {
        volumes.adapt(mount);
    }
    if let Some(token) = &sidecar.token {
        mounts.push(token_mount(volumes, sidecar.name(), token));
    }
    if !mounts.is_empty() {
        container.set("volumeMounts", mounts);
    }
    let mut devices: Vec<Object> = container.objects("volumeDevices").cloned().collect();
    for device in &mut devices {
        volumes.rename(device);
    }
    if !devices.is_empty() {
        container.set("volumeDevices", devices);
    }
    container
}

fn token_mount(volumes: &Volumes<'_>, container: &str, token: &Token) -> Object {
    let mut mount = Object::from([
        ("mountPath", Value::from(token.mount_path.as_str())),
        ("name", volumes.names.token(container).into()),
        ("readOnly", true.into()),
    ]);
    volumes.rename(&mut mount);
    mount
}
