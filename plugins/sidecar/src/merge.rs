//! Completing a container of the pod's own that has the name of an injected one.

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

use crate::additions::{add_env, add_mounts};
use crate::build;
use crate::config::Sidecar;
use crate::injection::Injection;
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
    sidecar: &Sidecar,
    volumes: &Volumes<'_>,
) -> Result<(), Error> {
    let container = sidecar.path();
    let ours: Vec<String> = injection.before.inside(&container).cloned().collect();
    if injection.before.is_current && !ours.is_empty() {
        injection.paths.extend(ours);
        return Ok(());
    }
    for path in ours.iter().rev() {
        injection.pod.remove(path)?;
    }
    note(&format!(
        "the pod's own container {} stays, and gets what it lacks of the injected one",
        sidecar.name()
    ));
    merge_fields(injection, &container, &build::container(sidecar, volumes))
}

fn merge_fields(injection: &mut Injection<'_>, parent: &str, ours: &Object) -> Result<(), Error> {
    for (key, value) in ours.fields() {
        let path = &path::field(parent, key);
        let Some(theirs) = injection.pod.get::<Value>(path)? else {
            injection.pod.set_json(path, &value.to_json())?;
            injection.paths.push(path.to_owned());
            continue;
        };
        if let Some(fields) = value.as_object().filter(|_| DEEP.contains(&key)) {
            merge_fields(injection, path, fields)?;
        } else {
            match key {
                "env" => add_env(injection, parent, ours.objects(key))?,
                "volumeMounts" => add_mounts(injection, parent, ours.objects(key))?,
                "ports" => add_ports(injection, path, ours.objects(key))?,
                // The API server has set them in every pod that comes to a webhook.
                "imagePullPolicy" | "terminationMessagePath" | "terminationMessagePolicy"
                    if theirs != *value =>
                {
                    let what = "is the pod's own, or what the API server sets where nothing is said, and stays";
                    injection.remarks.add(path, what);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn add_ports<'o>(
    injection: &mut Injection<'_>,
    list: &str,
    ports: impl Iterator<Item = &'o Object>,
) -> Result<(), Error> {
    for port in ports {
        let number = port.get("containerPort").to_json();
        let place = path::element(list, "containerPort", &number);
        injection.put(place, &port.clone().into())?;
    }
    Ok(())
}
