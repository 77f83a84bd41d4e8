//! What a container gets besides what it has: environment variables and mounts. What it has always wins.

use podloom_plugin_sdk::json::Object;
use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

use crate::defaults;
use crate::injection::{Injection, Put};
use crate::lists::List;
use crate::view::Spec;
use crate::volumes::Volumes;

/// Adds to the pod's own containers, also those that came after an earlier run.
pub(crate) fn add(
    injection: &mut Injection<'_>,
    spec: &Spec,
    volumes: &Volumes<'_>,
) -> Result<(), Error> {
    let config = injection.config;
    let additions = &config.add_to_containers;
    if additions.env.is_empty() && additions.volume_mounts.is_empty() {
        return Ok(());
    }
    for container in spec.list(List::Containers) {
        let name = &container.name;
        let is_meant = additions.names.is_empty() || additions.names.contains(name);
        let mut injected = config.containers.iter();
        if !is_meant || injected.any(|sidecar| sidecar.name() == name) {
            continue;
        }
        let container = List::Containers.element(name);
        add_env(injection, &container, additions.env.iter())?;
        let mut mounts = additions.volume_mounts.clone();
        for mount in &mut mounts {
            volumes.adapt(mount);
        }
        add_mounts(injection, &container, mounts.iter())?;
    }
    Ok(())
}

/// Appends variables, in order: each may refer to those before it, and `$(VAR)` in the container's own keeps its meaning.
pub(crate) fn add_env<'o>(
    injection: &mut Injection<'_>,
    container: &str,
    variables: impl Iterator<Item = &'o Object>,
) -> Result<(), Error> {
    let list = path::field(container, "env");
    for variable in variables {
        let place = path::element(&list, "name", variable.text("name"));
        let variable = variable.clone().into();
        if let Put::Theirs(theirs) = injection.put(place.clone(), &variable)?
            && !defaults::same(&variable, &theirs)
        {
            injection.remarks.add(&place, "is the pod's own and stays");
        }
    }
    Ok(())
}

/// Adds mounts where they neither hide nor lie inside another.
pub(crate) fn add_mounts<'o>(
    injection: &mut Injection<'_>,
    container: &str,
    mounts: impl Iterator<Item = &'o Object>,
) -> Result<(), Error> {
    let list = path::field(container, "volumeMounts");
    let mut mounts = mounts.peekable();
    if mounts.peek().is_none() {
        return Ok(());
    }
    let theirs: Vec<Object> = injection.pod.get(&list)?.unwrap_or_default();
    for mount in mounts {
        let directory = mount.text("mountPath");
        let place = path::element(&list, "mountPath", directory);
        let mut others = theirs.iter();
        let other = others.find(|other| overlap(other.text("mountPath"), directory));
        match other.filter(|_| !injection.before.has(&place)) {
            None => {
                injection.put(place, &mount.clone().into())?;
            }
            Some(other) if other == mount => {}
            Some(other) => {
                let mounted = other.text("mountPath");
                let what = format!("is not added: the container mounts {mounted}");
                injection.remarks.add(&place, &what);
            }
        }
    }
    Ok(())
}

/// Whether two directories are the same, or one is inside the other.
pub(crate) fn overlap(left: &str, right: &str) -> bool {
    let (left, right) = (left.trim_end_matches('/'), right.trim_end_matches('/'));
    path::covers(left, right) || path::covers(right, left)
}
