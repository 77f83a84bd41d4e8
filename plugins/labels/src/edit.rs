//! What happens to a pod.

use std::collections::BTreeMap;

use podloom_plugin_sdk::prelude::*;

use crate::keys::{self, Map};
use crate::{Config, Mode, OnMissing, Rule, template};

/// What the API server allows for all annotations together, keys and values, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Brings a pod to what is configured. A denial has all reasons at once.
pub(crate) fn apply(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
    let mut edit = Edit {
        request,
        pod,
        own: own(config, pod)?,
        annotated: false,
        denials: Vec::new(),
    };
    for map in Map::BOTH {
        edit.apply(map, config.rules(map))?;
        edit.inherit(map, config.inherited(map))?;
    }
    if edit.annotated {
        edit.check_annotations_size()?;
    }
    Rejection::deny_if_any(&edit.denials)
}

/// What the pod had at first of the keys that are only added. Rules name different keys, so none sees what another has done.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Own {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Own {
    fn get(&self, map: Map, key: &str) -> Option<&str> {
        let map = match map {
            Map::Labels => &self.labels,
            Map::Annotations => &self.annotations,
        };
        map.get(key).map(String::as_str)
    }
}

fn own(config: &Config, pod: &Pod) -> Result<Own, Error> {
    if config.added.is_empty() {
        return Ok(Own::default());
    }
    let fields: Vec<&str> = config.added.iter().map(String::as_str).collect();
    Ok(pod.view("/metadata", &fields)?.unwrap_or_default())
}

/// Returns the paths below `/metadata` of the keys that are only added.
pub(crate) fn added(config: &Config) -> Vec<String> {
    let mut paths = Vec::new();
    for map in Map::BOTH {
        let rules = config.rules(map).iter();
        let added = rules
            .filter(|rule| rule.mode == Mode::AddIfAbsent)
            .map(|rule| &rule.key);
        for key in added.chain(config.inherited(map)) {
            let path = map.key(key);
            paths.extend(path.strip_prefix("/metadata").map(str::to_owned));
        }
    }
    paths
}

/// The work on one pod.
struct Edit<'p> {
    request: &'p Request,
    pod: &'p Pod,
    own: Own,
    /// Whether an annotation was written, so that their size must be checked.
    annotated: bool,
    denials: Vec<String>,
}

impl Edit<'_> {
    /// Applies the rules of one map, in order.
    fn apply(&mut self, map: Map, rules: &[Rule]) -> Result<(), Rejection> {
        let mut removed = false;
        for rule in rules {
            match rule.mode {
                Mode::Remove => removed |= self.remove(map, &rule.key)?,
                Mode::AddIfAbsent | Mode::Overwrite => self.write(map, rule)?,
            }
        }
        if removed && self.pod.keys(map.path())?.is_empty() {
            self.pod.remove(map.path())?;
        }
        Ok(())
    }

    /// Copies keys from the namespace's map of the same kind, unless the pod has them.
    fn inherit(&mut self, map: Map, keys: &[String]) -> Result<(), Rejection> {
        for key in keys {
            match map.of_namespace(self.request, key) {
                Some(value) => self.add(map, key, &map.key(key), &value)?,
                None => skip(map, key, &format!("the namespace has no {map} of this key")),
            }
        }
        Ok(())
    }

    /// Gives a key the value of its rule, if there is one.
    fn write(&mut self, map: Map, rule: &Rule) -> Result<(), Rejection> {
        let key = &rule.key;
        let keeps_own = rule.mode == Mode::AddIfAbsent && self.own.get(map, key).is_some();
        let value = match (self.value(map, rule)?, &rule.default) {
            (Ok(value), _) => value,
            (Err(reason), Some(default)) => {
                if let Some(set) = template::set_in_a_cluster(&rule.template, self.request, &reason)
                {
                    note(&format!(
                        "{map} {key}: the rule's default counts, but in a cluster the API server sets {set} before"
                    ));
                }
                default.clone()
            }
            // The pod needs no value of ours.
            (Err(_), None) if keeps_own => return Ok(()),
            (Err(reason), None) => {
                match rule.on_missing {
                    OnMissing::Skip => skip(map, key, &reason),
                    OnMissing::Deny => {
                        let denial = format!("{map} {key} is required: {reason}");
                        self.denials.push(denial);
                    }
                }
                return Ok(());
            }
        };
        match rule.mode {
            Mode::Overwrite => self.set(map, key, &rule.path, &value),
            Mode::AddIfAbsent | Mode::Remove => self.add(map, key, &rule.path, &value),
        }
    }

    /// The value that a rule's template gives; the inner error says why it gives none.
    fn value(&self, map: Map, rule: &Rule) -> Result<template::Rendered, Rejection> {
        // A rule with a default of its own says what a pod without a source gets.
        let assume = rule.default.is_none();
        let value = template::render(&rule.template, self.request, self.pod, assume)?;
        Ok(
            value.and_then(|value| match keys::value_error(map, &value) {
                None => Ok(value),
                Some(error) => {
                    let template = rule.value.as_deref().unwrap_or_default();
                    Err(format!("its value of {template} {error}"))
                }
            }),
        )
    }

    /// Writes a key that the pod does not have; the pod's own value is kept.
    fn add(&mut self, map: Map, key: &str, path: &str, value: &str) -> Result<(), Rejection> {
        match self.own.get(map, key) {
            None => self.set(map, key, path, value),
            Some(own) => {
                if own != value {
                    note(&format!("{map} {key}: the pod's own value is kept"));
                }
                Ok(())
            }
        }
    }

    fn set(&mut self, map: Map, key: &str, path: &str, value: &str) -> Result<(), Rejection> {
        match self.pod.set_text(path, value) {
            Err(error) => skip_if_forbidden(map, key, error),
            Ok(()) => {
                self.annotated |= map == Map::Annotations;
                Ok(())
            }
        }
    }

    /// Removes a key. Returns whether the pod had it.
    fn remove(&self, map: Map, key: &str) -> Result<bool, Rejection> {
        self.pod
            .remove(&map.key(key))
            .or_else(|error| skip_if_forbidden(map, key, error).map(|()| false))
    }

    fn check_annotations_size(&mut self) -> Result<(), Rejection> {
        let text = self.pod.get_json(Map::Annotations.path())?;
        let text = text.unwrap_or_default();
        // As JSON they are never shorter than keys and values alone, so nearly every pod is done here.
        if text.len() <= ANNOTATIONS_LIMIT {
            return Ok(());
        }
        let annotations: BTreeMap<String, String> =
            self.pod.annotations().node().get()?.unwrap_or_default();
        let sizes = annotations
            .iter()
            .map(|(key, value)| key.len() + value.len());
        if sizes.sum::<usize>() > ANNOTATIONS_LIMIT {
            self.denials.push(format!(
                "the annotations are larger than {ANNOTATIONS_LIMIT} bytes together: shorten the pod's or those of the plugin"
            ));
        }
        Ok(())
    }
}

/// What the plugin was granted was checked when it was loaded: what is forbidden now is a label that a selector needs. It may be a tenant
/// who keeps the label in this way.
fn skip_if_forbidden(map: Map, key: &str, error: Error) -> Result<(), Rejection> {
    let Error::Forbidden(reason) = error else {
        return Err(error.into());
    };
    warn(&skipped(map, key, &reason));
    Ok(())
}

fn skip(map: Map, key: &str, reason: &str) {
    note(&skipped(map, key, reason));
}

fn skipped(map: Map, key: &str, reason: &str) -> String {
    format!("{map} {key} skipped: {reason}")
}
