//! The text of an injected container: as configured, and what Podloom adds to it.

use crate::config::{Placement, Token};
use crate::containers::Step;
use crate::json::{self, Object, quote};
use crate::security;
use crate::text::note;
use crate::volumes::{Volumes, token_name};

/// Returns the container's text, and notes what is missing in it.
pub(crate) fn container(step: &Step<'_>, volumes: &Volumes) -> String {
    let container = fields(step, volumes);
    let resources = container.object("resources");
    let missing = match (resources.has("requests"), resources.has("limits")) {
        (true, true) => "",
        (true, false) => "limits",
        (false, true) => "requests",
        (false, false) => "requests and limits",
    };
    if !missing.is_empty() {
        note(&[
            "container ",
            step.name,
            " is injected without resource ",
            missing,
        ]);
    }
    container.text()
}

/// Returns the container as it is injected.
pub(crate) fn fields(step: &Step<'_>, volumes: &Volumes) -> Object {
    let sidecar = step.sidecar;
    let mut container = sidecar.container.clone();
    if sidecar.placement == Placement::Native {
        container.set("restartPolicy", "\"Always\"");
    }
    if sidecar.restricted {
        let context = security::complete(container.object("securityContext"), volumes.os);
        container.set("securityContext", &context.text());
    }
    if container.has("volumeMounts") || sidecar.token.is_some() {
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
