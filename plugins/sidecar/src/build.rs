//! The text of an injected container: as configured, and what Podloom adds to it.

use std::borrow::Cow;

use crate::config::{Os, Placement, Sidecar, Token};
use crate::containers::Step;
use crate::json::{self, Object, quote};
use crate::security;
use crate::text::note;
use crate::volumes::{Volumes, token_name};

/// What is settled about an injected container before there is a pod.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The container, except that mounts and devices still have the configured names of their volumes.
    container: Object,
    /// Its text, if it has neither.
    text: Option<String>,
    /// Which resources it does not name.
    missing: &'static str,
}

impl Settled {
    pub(crate) fn of(sidecar: &Sidecar, os: Os) -> Self {
        let mut container = sidecar.container.clone();
        if sidecar.placement == Placement::Native {
            container.set("restartPolicy", "\"Always\"");
        }
        if sidecar.restricted {
            let context = security::complete(container.object("securityContext"), os);
            container.set("securityContext", &context.text());
        }
        let depends = has_mounts(sidecar) || container.has("volumeDevices");
        let resources = container.object("resources");
        Self {
            text: (!depends).then(|| container.text()),
            missing: match (resources.has("requests"), resources.has("limits")) {
                (true, true) => "",
                (true, false) => "limits",
                (false, true) => "requests",
                (false, false) => "requests and limits",
            },
            container,
        }
    }
}

fn has_mounts(sidecar: &Sidecar) -> bool {
    sidecar.container.has("volumeMounts") || sidecar.token.is_some()
}

/// Returns the container's text, and notes what is missing in it.
pub(crate) fn container<'a>(step: &Step<'a>, volumes: &Volumes) -> Cow<'a, str> {
    let settled = &step.sidecar.settled;
    if !settled.missing.is_empty() {
        note(&[
            "container ",
            step.name,
            " is injected without resource ",
            settled.missing,
        ]);
    }
    match &settled.text {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(fields(step, volumes).text()),
    }
}

/// Returns the container as it is injected.
pub(crate) fn fields(step: &Step<'_>, volumes: &Volumes) -> Object {
    let sidecar = step.sidecar;
    let mut container = sidecar.settled.container.clone();
    if has_mounts(sidecar) {
        let mut mounts = container.objects("volumeMounts");
        for mount in &mut mounts {
            volumes.adapt(mount);
        }
        if let Some(token) = &sidecar.token {
            mounts.push(token_mount(volumes, step.name, token));
        }
        container.set("volumeMounts", &json::list(&mounts));
    }
    if container.has("volumeDevices") {
        let mut devices = container.objects("volumeDevices");
        for device in &mut devices {
            volumes.rename(device);
        }
        container.set("volumeDevices", &json::list(&devices));
    }
    container
}

fn token_mount(volumes: &Volumes, container: &str, token: &Token) -> Object {
    let mut mount = Object::default();
    mount.set("mountPath", &quote(&token.mount_path));
    mount.set("name", &quote(&token_name(container)));
    mount.set("readOnly", "true");
    volumes.rename(&mut mount);
    mount
}
