//! One run: what was ours, what is ours now, and why the pod is refused.

use podloom_plugin_sdk::{Error, Pod, Rejection};

use crate::config::Config;
use crate::json::objects;
use crate::lists::{List, Lists};
use crate::needs;
use crate::record::Record;
use crate::text::{list, note};
use crate::view::View;

/// What all steps share.
pub(crate) struct Injection<'a> {
    pub(crate) config: &'a Config,
    pub(crate) pod: &'a Pod,
    /// What earlier runs injected.
    pub(crate) before: Record<'a>,
    /// Paths that are ours after this run.
    pub(crate) paths: Vec<String>,
    /// Why the pod is refused. Collected, so that the user reads all at once: nothing that was written is kept then.
    pub(crate) denials: Vec<String>,
}

/// What came of putting something into the pod.
pub(crate) enum Put {
    /// It is there, and ours.
    Done,
    /// Something is there that is not ours; its text.
    Theirs(String),
}

impl<'a> Injection<'a> {
    pub(crate) fn begin(config: &'a Config, pod: &'a Pod, view: &mut View) -> Result<Self, Error> {
        let mut injection = Self {
            config,
            pod,
            before: Record::read(config, view),
            paths: Vec::new(),
            denials: Vec::new(),
        };
        injection.retire_containers(&mut view.lists)?;
        Ok(injection)
    }

    /// Puts an element at its path unless one is there that is not ours.
    #[inline(never)]
    pub(crate) fn put(&mut self, path: String, text: &str) -> Result<Put, Error> {
        let found = match self.pod.get_json(&path) {
            // Several elements have this name, so none of them is ours.
            Err(Error::InvalidPath(_)) => return Ok(Put::Theirs(String::new())),
            found => found?,
        };
        match found {
            Some(theirs) if !self.before.has(&path) => return Ok(Put::Theirs(theirs)),
            Some(_) if self.before.is_current => {}
            _ => self.pod.set_json(&path, text)?,
        }
        self.paths.push(path);
        Ok(Put::Done)
    }

    /// Removes what was ours and is no more, and writes the record.
    pub(crate) fn finish(mut self) -> Result<(), Rejection> {
        if !self.denials.is_empty() {
            return Err(Rejection::Denied(list(&self.denials, "; ")));
        }
        let stale: Vec<&String> = self
            .before
            .paths
            .iter()
            .filter(|path| !self.paths.contains(path))
            .collect();
        if !stale.is_empty() {
            let grants = needs::writes(self.config);
            // Backwards, so that mounts go before volumes.
            let mut kept = Vec::new();
            for path in stale.into_iter().rev() {
                if remove(self.pod, &grants, path)? == Removal::Kept {
                    kept.push(path.clone());
                }
            }
            kept.reverse();
            self.paths.append(&mut kept);
        }
        Ok(self.before.write(self.pod, &self.paths)?)
    }

    /// Removes containers of an earlier configuration first: the present one may have given their names to another list.
    fn retire_containers(&mut self, lists: &mut Lists) -> Result<(), Error> {
        let config = self.config;
        let mut kept = Vec::new();
        for path in self.before.paths.drain(..) {
            let list = List::of(&path).filter(|_| {
                config
                    .retired
                    .iter()
                    .any(|grant| needs::covers(grant, &path))
                    && !config
                        .containers
                        .iter()
                        .any(|sidecar| sidecar.path() == path)
            });
            if let Some(list) = list {
                self.pod.remove(&path)?;
                lists
                    .containers_mut(list)
                    .retain(|container| list.element(container.string("name")) != path);
            } else {
                kept.push(path);
            }
        }
        self.before.paths = kept;
        Ok(())
    }
}

#[derive(PartialEq, Eq)]
enum Removal {
    Gone,
    Kept,
}

fn remove(pod: &Pod, grants: &[String], path: &str) -> Result<Removal, Error> {
    if !grants.iter().any(|grant| needs::covers(grant, path)) {
        note(&[
            path,
            " was injected by an earlier configuration and stays: list it under retired to have it removed",
        ]);
        return Ok(Removal::Kept);
    }
    let volume = path
        .strip_prefix("/spec/volumes/[name=")
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(volume) = volume
        && is_mounted(pod, volume)?
    {
        note(&[
            path,
            " was injected by an earlier configuration and stays: a container mounts it",
        ]);
        return Ok(Removal::Kept);
    }
    pod.remove(path)?;
    Ok(Removal::Gone)
}

fn is_mounted(pod: &Pod, volume: &str) -> Result<bool, Error> {
    const KINDS: [&str; 2] = ["volumeMounts", "volumeDevices"];
    for list in [List::Containers, List::InitContainers] {
        let text = pod.view_json(list.path(), &["/*/volumeMounts", "/*/volumeDevices"])?;
        let containers = text.map(|text| objects(&text)).unwrap_or_default();
        let is_mounted = containers.iter().any(|container| {
            KINDS.iter().any(|kind| {
                let mounts = container.objects(kind);
                mounts.iter().any(|mount| mount.string("name") == volume)
            })
        });
        if is_mounted {
            return Ok(true);
        }
    }
    Ok(false)
}
