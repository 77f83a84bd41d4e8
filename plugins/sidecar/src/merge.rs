//! Completing a container of the pod's own that has the name of an injected one.

use podloom_plugin_sdk::{Error, path};

use crate::additions::{add_env, add_mounts};
use crate::build;
use crate::containers::Step;
use crate::injection::Injection;
use crate::json::{Object, objects};
use crate::text::{element, note};
use crate::volumes::Volumes;

/// Objects whose fields are merged one by one. Others are unions or belong together, such as a probe: the container's own stays whole.
const DEEP: [&str; 5] = [
    "resources",
    "requests",
    "limits",
    "securityContext",
    "capabilities",
];

/// Gives the container the fields that it lacks. Each is recorded, so that a later run updates or removes exactly these.
pub(crate) fn merge(
    injection: &mut Injection<'_>,
    step: &Step<'_>,
    volumes: &Volumes,
) -> Result<(), Error> {
    let container = step.sidecar.path();
    let ours: Vec<String> = injection.before.inside(&container).cloned().collect();
    if injection.before.is_current && !ours.is_empty() {
        injection.paths.extend(ours);
        return Ok(());
    }
    for path in ours.iter().rev() {
        injection.pod.remove(path)?;
    }
    note(&[
        "the pod's own container ",
        step.name,
        " stays, and gets what it lacks of the injected one",
    ]);
    fields(injection, &container, &build::fields(step, volumes))
}

fn fields(injection: &mut Injection<'_>, parent: &str, ours: &Object) -> Result<(), Error> {
    for (key, text) in ours.fields() {
        let mut place = parent.to_owned();
        path::push(&mut place, key);
        if injection.pod.get_json(&place)?.is_none() {
            injection.pod.set_json(&place, text)?;
            injection.paths.push(place);
        } else if DEEP.contains(&key) {
            fields(injection, &place, &Object::parse(text).unwrap_or_default())?;
        } else {
            match key {
                "env" => add_env(injection, parent, &objects(text))?,
                "volumeMounts" => add_mounts(injection, parent, &objects(text))?,
                "ports" => ports(injection, &place, &objects(text))?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn ports(injection: &mut Injection<'_>, list: &str, ports: &[Object]) -> Result<(), Error> {
    for port in ports {
        let number = port.get("containerPort").unwrap_or_default();
        let place = element(list, "containerPort", number);
        injection.put(place, &port.text())?;
    }
    Ok(())
}
