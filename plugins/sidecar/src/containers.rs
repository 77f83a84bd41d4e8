//! Brings the injected containers into the pod.

use podloom_plugin_sdk::json::Value;
use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

use crate::build;
use crate::config::{Position, Sidecar};
use crate::injection::Injection;
use crate::lists::List;
use crate::merge;
use crate::names::DEFAULT_CONTAINER;
use crate::plan::{Act, Step};
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
                merge::merge(injection, sidecar, volumes)?;
                continue;
            }
            Act::Replace => {
                build::note_missing(sidecar);
                let container = build::json(sidecar, volumes);
                injection.pod.set_json(&path, &container)?;
                injection.before.replaced.insert(path.clone());
            }
            Act::Update | Act::Add => {
                if step.act == Act::Update {
                    take(injection, sidecar, spec)?;
                }
                build::note_missing(sidecar);
                note_missing_anchor(sidecar, spec);
                let json = build::json(sidecar, volumes);
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
