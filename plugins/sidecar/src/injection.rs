//! One run: what was ours, what is ours now, and why the pod is refused.

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::prelude::*;

use crate::config::Config;
use crate::lists::List;
use crate::needs;
use crate::record::{self, Record};
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
    /// Something is there that is not ours.
    Theirs(Value),
}

impl<'a> Injection<'a> {
    pub(crate) fn begin(config: &'a Config, pod: &'a Pod, view: &mut View) -> Result<Self, Error> {
        let annotation = view.metadata.annotations.get(record::KEY);
        let mut injection = Self {
            config,
            pod,
            before: Record::read(&config.prepared.hash, annotation),
            paths: Vec::new(),
            denials: Vec::new(),
        };
        injection.retire_containers(view)?;
        Ok(injection)
    }

    /// Puts a value at its path unless something is there that is not ours.
    pub(crate) fn put(&mut self, path: String, value: &Value) -> Result<Put, Error> {
        let found: Option<Value> = match self.pod.get(&path) {
            // Several elements have this name, so none of them is ours.
            Err(Error::InvalidPath(_)) => return Ok(Put::Theirs(Value::Null)),
            found => found?,
        };
        match found {
            Some(theirs) if !self.before.has(&path) => return Ok(Put::Theirs(theirs)),
            Some(_) if self.before.is_current => {}
            Some(_) | None => self.pod.set_json(&path, &value.to_json())?,
        }
        self.paths.push(path);
        Ok(Put::Done)
    }

    /// Removes what was ours and is no more, and writes the record.
    pub(crate) fn finish(mut self) -> Result<(), Rejection> {
        Rejection::deny_if_any(&self.denials)?;
        let mut kept = Vec::new();
        let stale = self.before.paths.iter();
        let mut stale = stale.filter(|path| !self.paths.contains(path)).peekable();
        if stale.peek().is_some() {
            let grants = needs::writes(self.config);
            // Backwards, so that mounts go before volumes.
            for path in stale.rev() {
                if remove(self.pod, &grants, path)? == Removal::Kept {
                    kept.push(path.clone());
                }
            }
        }
        self.paths.extend(kept.into_iter().rev());
        Ok(self.before.write(self.pod, &self.paths)?)
    }

    /// Removes containers of an earlier configuration first: the present one may have given their names to another list.
    fn retire_containers(&mut self, view: &mut View) -> Result<(), Error> {
        let config = self.config;
        let is_retired = |path: &str| {
            let mut grants = config.retired.iter();
            grants.any(|grant| needs::covers(grant, path))
                && !config
                    .containers
                    .iter()
                    .any(|sidecar| sidecar.path() == path)
        };
        let mut kept = Vec::new();
        for path in std::mem::take(&mut self.before.paths) {
            match List::of(&path).filter(|_| is_retired(&path)) {
                Some(list) => {
                    self.pod.remove(&path)?;
                    view.spec
                        .list_mut(list)
                        .retain(|container| list.element(&container.name) != path);
                }
                None => kept.push(path),
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
    let is_granted = grants.iter().any(|grant| needs::covers(grant, path));
    let volume = path
        .strip_prefix("/spec/volumes/[name=")
        .and_then(|rest| rest.strip_suffix(']'));
    let obstacle = if !is_granted {
        "list it under retired to have it removed"
    } else if let Some(volume) = volume
        && is_mounted(pod, volume)?
    {
        "a container mounts it"
    } else {
        pod.remove(path)?;
        return Ok(Removal::Gone);
    };
    note(&format!(
        "{path} was injected by an earlier configuration and stays: {obstacle}"
    ));
    Ok(Removal::Kept)
}

fn is_mounted(pod: &Pod, volume: &str) -> Result<bool, Error> {
    for list in [List::Containers, List::InitContainers] {
        let fields = ["/*/volumeMounts/*/name", "/*/volumeDevices/*/name"];
        let containers: Vec<Object> = pod.view(list.path(), &fields)?.unwrap_or_default();
        let mut mounts = containers.iter().flat_map(|container| {
            let mounts = container.objects("volumeMounts");
            mounts.chain(container.objects("volumeDevices"))
        });
        if mounts.any(|mount| mount.text("name") == volume) {
            return Ok(true);
        }
    }
    Ok(false)
}
