//! Brings the injected containers into the pod.

use std::borrow::Cow;

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

use crate::config::{DEFAULT_CONTAINER, List, Os, Placement, Position, Sidecar, Token};
use crate::injection::{Injection, same};
use crate::plan::{Act, Step};
use crate::security;
use crate::view::{Container, Spec};
use crate::volumes::Volumes;

pub(crate) fn write(
    injection: &mut Injection<'_>,
    steps: &[Step<'_>],
    spec: &mut Spec,
    volumes: &Volumes<'_>,
) -> Result<(), Error> {
    for (index, step) in steps.iter().enumerate() {
        let sidecar = step.sidecar;
        let path = sidecar.path();
        match step.act {
            Act::Keep => {}
            Act::Merge => {
                complete_own(injection, sidecar, volumes)?;
                continue;
            }
            Act::Replace => {
                note_missing(sidecar);
                let container = text_of(sidecar, volumes);
                injection.pod.set_json(&path, &container)?;
                injection.before.replaced.insert(path.clone());
            }
            Act::Update | Act::Add => {
                if step.act == Act::Update {
                    take(injection, sidecar, spec)?;
                }
                note_missing(sidecar);
                note_missing_anchor(sidecar, spec);
                let json = text_of(sidecar, volumes);
                let earlier = steps.get(..index).unwrap_or_default();
                insert(injection, step, earlier, (spec, &json))?;
            }
        }
        injection.paths.push(path);
    }
    for list in [List::InitContainers, List::Containers] {
        restore_order(injection, steps, spec, list)?;
    }
    keep_default_container(injection)
}

fn note_missing_anchor(sidecar: &Sidecar, spec: &Spec) {
    if let Position::Before(anchor) | Position::After(anchor) = sidecar.position()
        && !spec.has(sidecar.list(), anchor)
    {
        note(&format!(
            "container {} has its default position: the pod has no container {anchor} beside it",
            sidecar.name()
        ));
    }
}

/// Takes a container out of the pod.
fn take(injection: &mut Injection<'_>, sidecar: &Sidecar, spec: &mut Spec) -> Result<(), Error> {
    injection.pod.remove(&sidecar.path())?;
    injection.before.replaced.remove(&sidecar.path());
    let containers = spec.list_mut(sidecar.list());
    containers.retain(|container| container.name != sidecar.name());
    Ok(())
}

fn insert(
    injection: &mut Injection<'_>,
    step: &Step<'_>,
    earlier: &[Step<'_>],
    (spec, json): (&mut Spec, &str),
) -> Result<(), Error> {
    let sidecar = step.sidecar;
    let list = sidecar.list();
    let containers = spec.list_mut(list);
    let names: Vec<&str> = names_of(containers);
    let index = index(step, earlier, &names);
    if index == containers.len() {
        injection.pod.set_json(&sidecar.path(), json)?;
    } else {
        let place = path::field(list.path(), &index.to_string());
        injection.pod.insert_json(&place, json)?;
        if let (List::Containers, 0, Some(first)) = (list, index, containers.first()) {
            // What the user set there wins.
            let first = Value::from(first.name.as_str());
            injection.put(DEFAULT_CONTAINER.to_owned(), &first)?;
        }
    }
    let injected = Container {
        name: sidecar.name().to_owned(),
        ..Container::default()
    };
    containers.insert(index, injected);
    Ok(())
}

/// Moves the injected containers of a list to where their positions say, if somebody put others between: as they are now, since later
/// plugins and webhooks may have changed them.
fn restore_order(
    injection: &mut Injection<'_>,
    steps: &[Step<'_>],
    spec: &mut Spec,
    list: List,
) -> Result<(), Error> {
    let is_placed = |step: &&Step<'_>| {
        let path = step.sidecar.path();
        let stays = step.act == Act::Merge || injection.before.replaced.contains(&path);
        step.sidecar.list() == list && step.sidecar.has_a_place() && !stays
    };
    let placed: Vec<Step<'_>> = steps.iter().filter(is_placed).copied().collect();
    if placed.is_empty() {
        return Ok(());
    }
    let present = names_of(spec.list(list));
    let is_ours = |name: &&str| placed.iter().any(|step| step.sidecar.name() == *name);
    let mut wanted = present.clone();
    wanted.retain(|name| !is_ours(name));
    for (at, step) in placed.iter().enumerate() {
        let earlier = placed.get(..at).unwrap_or_default();
        wanted.insert(index(step, earlier, &wanted), step.sidecar.name());
    }
    if wanted == present {
        return Ok(());
    }
    let mut texts = Vec::new();
    for step in &placed {
        let text = injection.pod.get_json(&step.sidecar.path())?;
        texts.push(text.unwrap_or_default());
        take(injection, step.sidecar, spec)?;
    }
    for (at, (step, text)) in placed.iter().zip(&texts).enumerate() {
        let earlier = placed.get(..at).unwrap_or_default();
        insert(injection, step, earlier, (&mut *spec, text))?;
        let what = "was moved back to its position, from which others had moved it";
        injection.remarks.add(&step.sidecar.path(), what);
    }
    Ok(())
}

fn names_of(containers: &[Container]) -> Vec<&str> {
    let names = containers.iter().map(|container| &container.name);
    names.map(String::as_str).collect()
}

/// Where a container goes among these. Those with the same position keep the order of the configuration.
fn index(step: &Step<'_>, earlier: &[Step<'_>], names: &[&str]) -> usize {
    let (sidecar, position) = (step.sidecar, step.sidecar.position());
    let find = |anchor: &str| names.iter().position(|name| *name == anchor);
    let default = match sidecar.placement.default_position() {
        Position::First => 0,
        _ => names.len(),
    };
    let start = match position {
        Position::Before(anchor) => match find(anchor) {
            Some(index) => return index,
            None => default,
        },
        Position::After(anchor) => find(anchor).map_or(default, |index| index + 1),
        Position::First => 0,
        Position::Last => names.len(),
    };
    let is_peer = |name: &&&str| {
        earlier.iter().any(|peer| {
            peer.sidecar.name() == **name
                && peer.sidecar.list() == sidecar.list()
                && peer.sidecar.position() == position
        })
    };
    let peers = names.iter().skip(start).take_while(is_peer);
    start + peers.count()
}

/// What an earlier run said about `kubectl exec` stays as long as its containers do. It comes last, so that the record is the same.
fn keep_default_container(injection: &mut Injection<'_>) -> Result<(), Error> {
    let count = injection.paths.len();
    injection.paths.retain(|path| path != DEFAULT_CONTAINER);
    let is_new = injection.paths.len() < count;
    let is_kept = injection.before.is_current
        && injection.before.has(DEFAULT_CONTAINER)
        && injection.pod.at(DEFAULT_CONTAINER).exists()?;
    if is_new || is_kept {
        injection.paths.push(DEFAULT_CONTAINER.to_owned());
    }
    Ok(())
}

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

/// Returns the container as it is injected into this pod, as JSON.
fn text_of<'s>(sidecar: &'s Sidecar, volumes: &Volumes<'_>) -> Cow<'s, str> {
    match &sidecar.json {
        Some(json) => Cow::Borrowed(json),
        None => Cow::Owned(in_pod(sidecar, volumes).to_json()),
    }
}

/// Notes what is missing in a container that is injected.
fn note_missing(sidecar: &Sidecar) {
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
fn in_pod(sidecar: &Sidecar, volumes: &Volumes<'_>) -> Object {
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

/// Adds variables and mounts to the pod's own containers, also to those that came after an earlier run. What they have always wins.
pub(crate) fn add_to_containers(
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
fn add_env<'o>(
    injection: &mut Injection<'_>,
    container: &str,
    variables: impl Iterator<Item = &'o Object>,
) -> Result<(), Error> {
    let list = path::field(container, "env");
    for variable in variables {
        let place = path::element(&list, "name", variable.text("name"));
        let variable = variable.clone().into();
        if let Some(theirs) = injection.put(place.clone(), &variable)?
            && !same(&variable, &theirs)
        {
            injection.remarks.add(&place, "is the pod's own and stays");
        }
    }
    Ok(())
}

/// Adds mounts where they neither hide nor lie inside another.
fn add_mounts<'o>(
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

/// Objects whose fields are merged one by one. Others are unions or belong together, such as a probe: the container's own stays whole.
const DEEP: [&str; 5] = [
    "resources",
    "requests",
    "limits",
    "securityContext",
    "capabilities",
];

/// Gives a container of the pod's own the fields that it lacks of the injected one of its name. Each is recorded, so that a later run updates or removes exactly these.
fn complete_own(
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
    merge_fields(injection, &container, &in_pod(sidecar, volumes))
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
