//! Brings the injected containers into the pod.

use podloom_plugin_sdk::json::Value;
use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

use crate::build;
use crate::config::Position;
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
    volumes: &Volumes,
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
            }
            Act::Update | Act::Add => {
                if step.act == Act::Update {
                    injection.pod.remove(&path)?;
                    spec.list_mut(sidecar.list())
                        .retain(|container| container.name != sidecar.name());
                }
                let earlier = steps.get(..index).unwrap_or_default();
                insert(injection, step, earlier, spec, volumes)?;
            }
        }
        injection.paths.push(path);
    }
    keep_default_container(injection)
}

fn insert(
    injection: &mut Injection<'_>,
    step: &Step<'_>,
    earlier: &[Step<'_>],
    spec: &mut Spec,
    volumes: &Volumes,
) -> Result<(), Error> {
    let sidecar = step.sidecar;
    build::note_missing(sidecar);
    let json = build::json(sidecar, volumes);
    let list = sidecar.list();
    let containers = spec.list_mut(list);
    let index = index(step, earlier, containers);
    if index == containers.len() {
        injection.pod.set_json(&sidecar.path(), &json)?;
    } else {
        let place = path::field(list.path(), &index.to_string());
        injection.pod.insert_json(&place, &json)?;
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

/// Where a container goes among these. Those with the same position keep the order of the configuration.
fn index(step: &Step<'_>, earlier: &[Step<'_>], containers: &[Container]) -> usize {
    let (sidecar, position) = (step.sidecar, step.sidecar.position());
    let find = |anchor: &str| {
        let mut names = containers.iter().map(|container| &container.name);
        let index = names.position(|name| name == anchor);
        if index.is_none() {
            note(&format!(
                "container {} has its default position: the pod has no container {anchor} beside it",
                sidecar.name()
            ));
        }
        index
    };
    let default = match sidecar.placement.default_position() {
        Position::First => 0,
        _ => containers.len(),
    };
    let start = match position {
        Position::Before(anchor) => match find(anchor) {
            Some(index) => return index,
            None => default,
        },
        Position::After(anchor) => find(anchor).map_or(default, |index| index + 1),
        Position::First => 0,
        Position::Last => containers.len(),
    };
    let is_peer = |container: &&Container| {
        earlier.iter().any(|peer| {
            peer.sidecar.name() == container.name
                && peer.sidecar.list() == sidecar.list()
                && peer.sidecar.position() == position
        })
    };
    let peers = containers.iter().skip(start).take_while(is_peer);
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
