//! The injected containers: what to do with each, and where it stands.

use podloom_plugin_sdk::{Error, Request};

use crate::build;
use crate::config::{OnConflict, Placement, Position, Sidecar};
use crate::injection::{Injection, Put};
use crate::json::Object;
use crate::lists::{List, Lists};
use crate::merge;
use crate::ports;
use crate::text::{self, decimal, note};
use crate::view::View;
use crate::volumes::Volumes;

/// Names the container that `kubectl exec` means.
pub(crate) const DEFAULT_CONTAINER: &str =
    "/metadata/annotations/kubectl.kubernetes.io~1default-container";

/// What to do with a configured container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is there, by this configuration.
    Keep,
    /// It is not there.
    Add,
    /// It is there, by another configuration.
    Update,
    /// The pod has one of its own, which gets what it lacks.
    Merge,
    /// The pod has one of its own, which goes.
    Replace,
}

/// A configured container that the pod gets.
pub(crate) struct Step<'a> {
    pub(crate) sidecar: &'a Sidecar,
    pub(crate) name: &'a str,
    pub(crate) act: Act,
}

impl Sidecar {
    pub(crate) fn name(&self) -> &str {
        self.container.string("name")
    }

    pub(crate) fn list(&self) -> List {
        match self.placement {
            Placement::Native | Placement::Init => List::InitContainers,
            Placement::Classic => List::Containers,
        }
    }

    #[inline(never)]
    pub(crate) fn path(&self) -> String {
        self.list().element(self.name())
    }

    pub(crate) fn position(&self) -> &Position {
        match (&self.position, self.placement) {
            (Some(position), _) => position,
            (None, placement) => default_position(placement),
        }
    }
}

fn default_position(placement: Placement) -> &'static Position {
    match placement {
        Placement::Native => &Position::First,
        Placement::Init | Placement::Classic => &Position::Last,
    }
}

/// Decides about each configured container, in order. What is skipped is missing, with a note.
pub(crate) fn plan<'a>(
    injection: &mut Injection<'a>,
    request: &Request,
    view: &View,
) -> Vec<Step<'a>> {
    let lists = &view.lists;
    let mut steps = Vec::new();
    for sidecar in &injection.config.containers {
        let name = sidecar.name();
        if let Some(other) = lists.elsewhere(sidecar.list(), name) {
            text::push(
                &mut injection.denials,
                &[
                    "the pod has a container ",
                    name,
                    " in ",
                    other.name(),
                    ", where the injected one cannot be: rename it",
                ],
            );
            continue;
        }
        if let Some(act) = choose(injection, sidecar, name, lists)
            && !is_endless(request, view, sidecar, name)
        {
            if act != Act::Keep && act != Act::Merge {
                ports::check(injection, sidecar, name, lists);
            }
            steps.push(Step { sidecar, name, act });
        }
    }
    steps
}

#[inline(never)]
fn choose(
    injection: &mut Injection<'_>,
    sidecar: &Sidecar,
    name: &str,
    lists: &Lists,
) -> Option<Act> {
    if !lists.has(sidecar.list(), name) {
        return Some(Act::Add);
    }
    let path = sidecar.path();
    if injection.before.has(&path) {
        return Some(if injection.before.is_current {
            Act::Keep
        } else {
            Act::Update
        });
    }
    let own = ["the pod's own container ", name].concat();
    match sidecar.on_conflict {
        OnConflict::Skip => {
            note(&[&own, " stays, and none is injected in its place"]);
            None
        }
        OnConflict::Merge => Some(Act::Merge),
        OnConflict::Replace => {
            note(&[&own, " is replaced by the injected one"]);
            Some(Act::Replace)
        }
        OnConflict::Deny => {
            text::push(
                &mut injection.denials,
                &[&own, " has the name of an injected one: rename it"],
            );
            None
        }
    }
}

/// Whether a classic sidecar would keep a pod from ever completing.
fn is_endless(request: &Request, view: &View, sidecar: &Sidecar, name: &str) -> bool {
    if sidecar.placement != Placement::Classic || request.kind() != "Pod" {
        return false;
    }
    let policy = view.spec.get("restartPolicy");
    let completes = policy.is_some_and(|policy| policy != "\"Always\"");
    if completes {
        note(&[
            "container ",
            name,
            " is not injected: as a classic sidecar it would keep the pod from completing; make it native",
        ]);
    }
    completes
}

/// Brings the containers into the pod.
pub(crate) fn write(
    injection: &mut Injection<'_>,
    steps: &[Step<'_>],
    lists: &mut Lists,
    volumes: &Volumes,
) -> Result<(), Error> {
    for (index, step) in steps.iter().enumerate() {
        let path = step.sidecar.path();
        match step.act {
            Act::Keep => {}
            Act::Merge => {
                merge::merge(injection, step, volumes)?;
                continue;
            }
            Act::Replace => injection
                .pod
                .set_json(&path, &build::container(step, volumes))?,
            Act::Update => {
                injection.pod.remove(&path)?;
                lists
                    .containers_mut(step.sidecar.list())
                    .retain(|container| container.string("name") != step.name);
                let earlier = steps.get(..index).unwrap_or_default();
                insert(injection, step, earlier, lists, volumes)?;
            }
            Act::Add => {
                let earlier = steps.get(..index).unwrap_or_default();
                insert(injection, step, earlier, lists, volumes)?;
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
    lists: &mut Lists,
    volumes: &Volumes,
) -> Result<(), Error> {
    let list = step.sidecar.list();
    let text = build::container(step, volumes);
    let containers = lists.containers(list);
    let index = index(step, earlier, containers);
    if index == containers.len() {
        injection.pod.set_json(&list.element(step.name), &text)?;
    } else {
        injection
            .pod
            .insert_json(&[list.path(), "/", &decimal(index)].concat(), &text)?;
        if let (List::Containers, 0, Some(first)) = (list, index, containers.first()) {
            // What the user set there wins.
            let first = first.get("name").unwrap_or("\"\"");
            let _: Put = injection.put(DEFAULT_CONTAINER.to_owned(), first)?;
        }
    }
    lists.insert(list, index, step.name);
    Ok(())
}

/// Where a container goes among these. Those with the same position keep the order of the configuration.
#[inline(never)]
fn index(step: &Step<'_>, earlier: &[Step<'_>], containers: &[Object]) -> usize {
    let find = |anchor: &str| {
        let index = containers
            .iter()
            .position(|container| container.string("name") == anchor);
        if index.is_none() {
            note(&[
                "container ",
                step.name,
                " has its default position: the pod has no container ",
                anchor,
                " beside it",
            ]);
        }
        index
    };
    let default = default_position(step.sidecar.placement);
    let start = match step.sidecar.position() {
        Position::Before(anchor) => match find(anchor) {
            Some(index) => return index,
            None => (*default == Position::First).then_some(0),
        },
        Position::After(anchor) => find(anchor)
            .map(|index| index + 1)
            .or((*default == Position::First).then_some(0)),
        Position::First => Some(0),
        Position::Last => None,
    };
    let Some(mut index) = start else {
        return containers.len();
    };
    let is_peer = |container: &Object| {
        earlier.iter().any(|peer| {
            peer.name == container.string("name")
                && peer.sidecar.list() == step.sidecar.list()
                && peer.sidecar.position() == step.sidecar.position()
        })
    };
    while containers.get(index).is_some_and(is_peer) {
        index += 1;
    }
    index
}

/// What an earlier run said about `kubectl exec` stays as long as its containers do. It comes last, so that the record is the same.
fn keep_default_container(injection: &mut Injection<'_>) -> Result<(), Error> {
    let count = injection.paths.len();
    injection.paths.retain(|path| path != DEFAULT_CONTAINER);
    let is_new = injection.paths.len() < count;
    let is_kept = injection.before.is_current
        && injection.before.has(DEFAULT_CONTAINER)
        && injection.pod.get_json(DEFAULT_CONTAINER)?.is_some();
    if is_new || is_kept {
        injection.paths.push(DEFAULT_CONTAINER.to_owned());
    }
    Ok(())
}
