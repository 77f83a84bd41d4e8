//! One run: what was ours, what is ours now, and why the pod is refused.

use std::collections::BTreeSet;

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::prelude::*;
use podloom_plugin_sdk::{evictable, json, path};

use crate::config::{Config, KEY, List, Position, START, fold, volume_path};
use crate::view::{self, Container, View};

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

impl<'a> Injection<'a> {
    pub(crate) fn begin(config: &'a Config, pod: &'a Pod, view: &mut View) -> Result<Self, Error> {
        let annotation = view.metadata.annotations.get(KEY);
        let mut injection = Self {
            config,
            pod,
            before: Record::read(&config.hash, annotation),
            paths: Vec::new(),
            denials: Vec::new(),
            is_asked: crate::asks(view),
            empty_dirs: Vec::new(),
            removed: Vec::new(),
            remarks: Findings::default(),
        };
        injection.retire_containers(view)?;
        Ok(injection)
    }

    /// Puts a value at its path unless something is there that is not ours. Returns that.
    pub(crate) fn put(&mut self, path: String, value: &Value) -> Result<Option<Value>, Error> {
        let found: Option<Value> = match self.pod.get(&path) {
            // Several elements have this name, so none of them is ours.
            Err(Error::InvalidPath(_)) => return Ok(Some(Value::Null)),
            found => found?,
        };
        match found {
            Some(theirs) if !self.before.has(&path) => return Ok(Some(theirs)),
            Some(_) if self.before.is_current => {}
            Some(_) | None => self.pod.set_json(&path, &value.to_json())?,
        }
        self.paths.push(path);
        Ok(None)
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
            let ours = set_of(&self.paths);
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

    /// Removes what earlier runs injected, backwards and the volumes last, so that their mounts are gone. Returns what has to stay, and
    /// tells why.
    fn remove_all(&mut self, stale: Vec<String>) -> Result<Vec<String>, Error> {
        if stale.is_empty() {
            return Ok(stale);
        }
        let grants = view::writes(self.config);
        let (mut kept, mut mounts) = (BTreeSet::new(), None);
        let others = stale.iter().filter(|path| volume(path).is_none());
        let volumes = stale.iter().filter(|path| volume(path).is_some());
        for path in others.rev().chain(volumes.rev()) {
            let obstacle = if !grants.iter().any(|grant| view::covers(grant, path)) {
                "list it under retired to have it removed"
            } else if let Some(name) = volume(path)
                && mounted(self.pod, &mut mounts)?.contains(name)
            {
                "a container mounts it"
            } else {
                self.pod.remove(path)?;
                self.removed.extend(volume(path).map(str::to_owned));
                continue;
            };
            let what = format!("was injected by an earlier configuration and stays: {obstacle}");
            self.remarks.add(path, &what);
            kept.insert(path.clone());
        }
        let stale = stale.into_iter();
        Ok(stale.filter(|path| kept.contains(path)).collect())
    }

    /// Removes containers of an earlier configuration first: the present one may have given their names to another list.
    fn retire_containers(&mut self, view: &mut View) -> Result<(), Error> {
        let config = self.config;
        let is_retired = |path: &str| {
            let mut grants = config.retired.iter();
            grants.any(|grant| view::covers(grant, path))
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

/// The volume that a path names.
fn volume(path: &str) -> Option<&str> {
    path.strip_prefix("/spec/volumes/[name=")?.strip_suffix(']')
}

/// The volumes that containers mount, read once: where no volume may be removed, mounts need not be granted.
fn mounted<'m>(
    pod: &Pod,
    known: &'m mut Option<BTreeSet<String>>,
) -> Result<&'m BTreeSet<String>, Error> {
    if known.is_none() {
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
        *known = Some(names);
    }
    Ok(known.get_or_insert_default())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the annotation says.
///
/// A container that is ours is left as it is while version and hash are the same: later plugins, webhooks and API defaults may
/// have changed it, and that is no drift.
#[derive(Debug, Default)]
pub(crate) struct Record<'c> {
    /// Whether it was injected by this version with this configuration.
    pub(crate) is_current: bool,
    /// Paths of what was injected, in order.
    pub(crate) paths: Vec<String>,
    /// The same, to look them up.
    known: BTreeSet<String>,
    /// Those of containers that took the place of one of the pod's own, and keep it.
    pub(crate) replaced: BTreeSet<String>,
    /// The annotation as it is, if it is there.
    text: Option<String>,
    /// The fingerprint of the present configuration.
    hash: &'c str,
}

/// The annotation's content.
#[derive(Deserialize)]
struct Annotation {
    #[serde(default)]
    version: String,
    #[serde(default)]
    hash: String,
    paths: Vec<String>,
    #[serde(default)]
    replaced: Vec<String>,
}

/// One by one: collecting would sort them first, and sorting is much code.
pub(crate) fn set_of(paths: &[String]) -> BTreeSet<String> {
    let mut set = BTreeSet::new();
    for path in paths {
        set.insert(path.clone());
    }
    set
}

impl<'c> Record<'c> {
    /// Reads the annotation; `hash` is the fingerprint of the present configuration.
    pub(crate) fn read(hash: &'c str, annotation: Option<&String>) -> Self {
        let mut record = Self {
            hash,
            text: annotation.cloned(),
            ..Self::default()
        };
        let Some(text) = &record.text else {
            return record;
        };
        match json::from_str::<Annotation>(text) {
            Ok(annotation) => {
                record.is_current = annotation.hash == hash && annotation.version == VERSION;
                record.keep(annotation.paths);
                record.replaced = set_of(&annotation.replaced);
            }
            Err(_) => note(&format!(
                "the annotation {KEY} is not one of ours, so nothing in the pod counts as injected"
            )),
        }
        record
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.known.contains(path)
    }

    /// These paths are what was injected.
    pub(crate) fn keep(&mut self, paths: Vec<String>) {
        self.known = set_of(&paths);
        self.paths = paths;
    }

    /// What is ours inside the element of this path, though the element is not.
    pub(crate) fn inside(&self, element: &str) -> impl Iterator<Item = &String> {
        let paths = self.paths.iter();
        paths.filter(move |path| *path != element && path::covers(element, path))
    }

    /// Writes what is ours now.
    pub(crate) fn write(&self, pod: &Pod, paths: &[String]) -> Result<(), Error> {
        if paths.is_empty() {
            if self.text.is_some() {
                pod.annotations().remove(KEY)?;
            }
            return Ok(());
        }
        let mut record = Object::from([
            ("version", Value::from(VERSION)),
            ("hash", self.hash.into()),
            ("paths", paths.to_vec().into()),
        ]);
        let replaced = paths.iter().filter(|path| self.replaced.contains(*path));
        let replaced: Vec<String> = replaced.cloned().collect();
        if !replaced.is_empty() {
            record.set("replaced", replaced);
        }
        let text = record.to_json();
        if self.text.as_ref() == Some(&text) {
            return Ok(());
        }
        pod.annotations().set(KEY, &text)
    }
}

/// A fingerprint of what is injected, not of the rules that say where. Where it changes, every pod is updated that has something
/// injected: so no part changes its place here.
pub(crate) fn hash(config: &Config) -> String {
    let mut hash = START;
    let mut add = |text: &str| hash = fold(hash, text);
    for sidecar in &config.containers {
        add(sidecar.list().name());
        match &sidecar.json {
            Some(json) => add(json),
            None => add(&sidecar.completed.to_json()),
        }
        let (place, anchor) = match sidecar.position() {
            Position::First => ("first", ""),
            Position::Last => ("last", ""),
            Position::Before(name) => ("before", name.as_str()),
            Position::After(name) => ("after", name.as_str()),
        };
        add(place);
        add(anchor);
        if let Some(token) = &sidecar.token {
            add(&token.mount_path);
            add(&token.audience);
            add(&token.expiration_seconds.to_string());
        }
    }
    let additions = &config.add_to_containers;
    for objects in [
        &config.volumes,
        &config.image_pull_secrets,
        &additions.env,
        &additions.volume_mounts,
    ] {
        add("[");
        objects.iter().for_each(|object| add(&object.to_json()));
    }
    additions.names.iter().for_each(|name| add(name));
    format!("{hash:016x}")
}

/// Whether two parts of a pod are the same but for what the API server fills in before a webhook sees a pod: an equal volume or
/// variable is known as one there as it is offline.
pub(crate) fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            has_all_of(ours, theirs) && has_all_of(theirs, ours)
        }
        (Value::List(ours), Value::List(theirs)) => {
            let mut pairs = ours.iter().zip(theirs);
            ours.len() == theirs.len() && pairs.all(|(ours, theirs)| same(ours, theirs))
        }
        _ => ours == theirs,
    }
}

/// Whether an object has all fields of another one that are no defaults.
fn has_all_of(object: &Object, other: &Object) -> bool {
    let mut fields = other.fields().filter(|(_, value)| !value.is_null());
    fields.all(|(key, value)| match object.get(key) {
        Value::Null => is_default(key, value),
        found => same(found, value),
    })
}

/// Whether the API server sets this value where a volume or a variable says nothing.
fn is_default(key: &str, value: &Value) -> bool {
    match key {
        // A volume without a source.
        "emptyDir" => value
            .as_object()
            .is_some_and(|source| source.fields().next().is_none()),
        "defaultMode" => value.as_i64() == Some(0o644),
        "expirationSeconds" => value.as_i64() == Some(3600),
        "apiVersion" => value.as_str() == Some("v1"),
        "divisor" => matches!(value.as_str(), Some("0")),
        "type" => value.as_str() == Some(""),
        "volumeMode" => value.as_str() == Some("Filesystem"),
        "iscsiInterface" => value.as_str() == Some("default"),
        _ => false,
    }
}
