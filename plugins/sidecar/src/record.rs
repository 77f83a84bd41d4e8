//! What earlier runs injected: the annotation that says which parts of a pod are ours.

pub(crate) mod hash;

use std::collections::BTreeSet;

use podloom_plugin_sdk::json::{self, Object, Value};
use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

/// The annotation's key, and its path.
pub(crate) const KEY: &str = "sidecar.podloom.dev/injected";
pub(crate) const INJECTED: &str = "/metadata/annotations/sidecar.podloom.dev~1injected";

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
