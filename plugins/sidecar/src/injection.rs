//! One run: what was ours, what is ours now, and why the pod is refused.

use std::collections::BTreeSet;

use podloom_plugin_sdk::evictable;
use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::prelude::*;

use crate::config::Config;
use crate::decide;
use crate::lists::List;
use crate::names::volume_path;
use crate::needs;
use crate::record::{self, Record};
use crate::view::{Container, View};

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
    /// Whether the pod itself asks to be injected.
    pub(crate) is_asked: bool,
    /// The injected emptyDirs, and those that are taken out.
    pub(crate) empty_dirs: Vec<String>,
    removed: Vec<String>,
    /// What the user should know, once for all places where it is so.
    pub(crate) remarks: Findings,
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
            is_asked: decide::asks(view),
            empty_dirs: Vec::new(),
            removed: Vec::new(),
            remarks: Findings::default(),
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
        let done = self.settle();
        for remark in self.remarks.notes() {
            note(&remark);
        }
        done
    }

    fn settle(&mut self) -> Result<(), Rejection> {
        Rejection::deny_if_any(&self.denials)?;
        // Mostly nothing has changed.
        if self.before.paths != self.paths {
            let ours = record::set_of(&self.paths);
            let stale = self.before.paths.iter();
            let stale = stale.filter(|path| !ours.contains(*path));
            let kept = self.remove_all(stale.cloned().collect())?;
            self.paths.extend(kept);
        }
        self.mark_evictable()?;
        Ok(self.before.write(self.pod, &self.paths)?)
    }

    /// Names our emptyDirs for the cluster autoscaler. Chains that do not grant that go on as before, unless it is configured.
    fn mark_evictable(&mut self) -> Result<(), Error> {
        let (ours, removed) = (&self.empty_dirs, &self.removed);
        if self.config.safe_to_evict == Some(false) || ours.is_empty() && removed.is_empty() {
            return Ok(());
        }
        match evictable::mark(self.pod, ours, removed) {
            Err(Error::Forbidden(_)) => {
                for volume in ours {
                    let what = format!(
                        "may keep the cluster autoscaler from removing the node: grant {}, or set safeToEvict: false",
                        evictable::PATH
                    );
                    self.remarks.add(&volume_path(volume), &what);
                }
                Ok(())
            }
            done => done,
        }
    }

    /// Removes what earlier runs injected, backwards and the volumes last, so that their mounts are gone. Returns what has to stay.
    fn remove_all(&mut self, stale: Vec<String>) -> Result<Vec<String>, Error> {
        if stale.is_empty() {
            return Ok(stale);
        }
        let grants = needs::writes(self.config);
        let mut kept = BTreeSet::new();
        for path in stale.iter().rev().filter(|path| volume(path).is_none()) {
            self.remove(&grants, path, &BTreeSet::new(), &mut kept)?;
        }
        let volumes: Vec<&String> = stale.iter().filter(|path| volume(path).is_some()).collect();
        // Where no volume may be removed, mounts need not be granted.
        let mounted = match volumes.iter().any(|path| is_granted(&grants, path)) {
            true => mounted(self.pod)?,
            false => BTreeSet::new(),
        };
        for path in volumes.into_iter().rev() {
            self.remove(&grants, path, &mounted, &mut kept)?;
        }
        Ok(stale
            .into_iter()
            .filter(|path| kept.contains(path))
            .collect())
    }

    /// Removes what an earlier run injected, or has it stay, with the reason.
    fn remove(
        &mut self,
        grants: &[String],
        path: &str,
        mounted: &BTreeSet<String>,
        kept: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let obstacle = if !is_granted(grants, path) {
            "list it under retired to have it removed"
        } else if volume(path).is_some_and(|name| mounted.contains(name)) {
            "a container mounts it"
        } else {
            self.pod.remove(path)?;
            self.removed.extend(volume(path).map(str::to_owned));
            return Ok(());
        };
        let what = format!("was injected by an earlier configuration and stays: {obstacle}");
        self.remarks.add(path, &what);
        kept.insert(path.to_owned());
        Ok(())
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
        if config.retired.is_empty() {
            return Ok(());
        }
        let (mut retired, mut kept) = (BTreeSet::new(), Vec::new());
        for path in std::mem::take(&mut self.before.paths) {
            if List::of(&path).is_some() && is_retired(&path) {
                self.pod.remove(&path)?;
                retired.insert(path);
            } else {
                kept.push(path);
            }
        }
        self.before.keep(kept);
        for list in List::ALL {
            let stays = |container: &Container| !retired.contains(&list.element(&container.name));
            view.spec.list_mut(list).retain(stays);
        }
        Ok(())
    }
}

fn is_granted(grants: &[String], path: &str) -> bool {
    grants.iter().any(|grant| needs::covers(grant, path))
}

/// The volume that a path names.
fn volume(path: &str) -> Option<&str> {
    path.strip_prefix("/spec/volumes/[name=")?.strip_suffix(']')
}

/// The volumes that containers mount.
fn mounted(pod: &Pod) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    for list in [List::Containers, List::InitContainers] {
        let fields = ["/*/volumeMounts/*/name", "/*/volumeDevices/*/name"];
        let containers: Vec<Object> = pod.view(list.path(), &fields)?.unwrap_or_default();
        for container in &containers {
            let mounts = container.objects("volumeMounts");
            let mounts = mounts.chain(container.objects("volumeDevices"));
            names.extend(mounts.map(|mount| mount.text("name").to_owned()));
        }
    }
    Ok(names)
}
