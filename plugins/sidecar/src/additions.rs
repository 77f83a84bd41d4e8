//! What a container gets besides what it has: environment variables and mounts. What it has always wins.

use podloom_plugin_sdk::Error;

use crate::injection::{Injection, Put};
use crate::json::{Object, equal, objects};
use crate::lists::{List, Lists};
use crate::text::{element, note};
use crate::volumes::Volumes;

/// Adds to the pod's own containers, also those that came after an earlier run.
pub(crate) fn add(
    injection: &mut Injection<'_>,
    lists: &Lists,
    volumes: &Volumes,
) -> Result<(), Error> {
    let config = injection.config;
    let additions = &config.add_to_containers;
    if additions.is_empty() {
        return Ok(());
    }
    for container in lists.containers(List::Containers) {
        let name = container.string("name");
        let is_meant = additions.names.is_empty() || additions.names.iter().any(|n| n == name);
        if is_meant
            && !config
                .containers
                .iter()
                .any(|sidecar| sidecar.name() == name)
        {
            let container = List::Containers.element(name);
            add_env(injection, &container, &additions.env)?;
            let mut mounts = additions.volume_mounts.clone();
            for mount in &mut mounts {
                volumes.adapt(mount);
            }
            add_mounts(injection, &container, &mounts)?;
        }
    }
    Ok(())
}

/// Appends variables, in order: each may refer to those before it, and `$(VAR)` in the container's own keeps its meaning.
#[inline(never)]
pub(crate) fn add_env(
    injection: &mut Injection<'_>,
    container: &str,
    env: &[Object],
) -> Result<(), Error> {
    for variable in env {
        let place = element(
            &[container, "/env"].concat(),
            "name",
            variable.string("name"),
        );
        let text = variable.text();
        if let Put::Theirs(theirs) = injection.put(place.clone(), &text)?
            && !equal(&text, &theirs)
        {
            note(&[&place, " is the pod's own and stays"]);
        }
    }
    Ok(())
}

/// Adds mounts where they neither hide nor lie inside another.
pub(crate) fn add_mounts(
    injection: &mut Injection<'_>,
    container: &str,
    mounts: &[Object],
) -> Result<(), Error> {
    if mounts.is_empty() {
        return Ok(());
    }
    let list = [container, "/volumeMounts"].concat();
    let theirs = injection
        .pod
        .get_json(&list)?
        .map(|text| objects(&text))
        .unwrap_or_default();
    for mount in mounts {
        let directory = mount.string("mountPath");
        let place = element(&list, "mountPath", directory);
        if !injection.before.has(&place)
            && let Some(other) = theirs
                .iter()
                .find(|other| overlap(other.string("mountPath"), directory))
        {
            if !equal(&mount.text(), &other.text()) {
                note(&[
                    &place,
                    " is not added: the container mounts ",
                    other.string("mountPath"),
                ]);
            }
            continue;
        }
        let _: Put = injection.put(place, &mount.text())?;
    }
    Ok(())
}

/// Whether two directories are the same, or one is inside the other.
#[inline(never)]
pub(crate) fn overlap(left: &str, right: &str) -> bool {
    let (left, right) = (left.trim_end_matches('/'), right.trim_end_matches('/'));
    let is_inside = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_inside(left, right) || is_inside(right, left)
}
