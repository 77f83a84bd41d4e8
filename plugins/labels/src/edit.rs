//! What happens to a pod.

use podloom_plugin_sdk::{Error, Pod, Rejection, Request, json, note};

use crate::keys::{self, Place};
use crate::own::Own;
use crate::{Config, Mode, OnMissing, Rule, template};

/// What the API server allows for all annotations together, keys and values, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The work on one pod.
pub(crate) struct Edit<'p> {
    request: &'p Request,
    pod: &'p Pod,
    /// What the pod had at first. Rules name different keys, so none sees what another has done.
    own: Own,
    /// Whether an annotation was written, so that their size must be checked.
    annotated: bool,
    denials: Vec<String>,
}

impl<'p> Edit<'p> {
    pub(crate) fn begin(
        config: &Config,
        request: &'p Request,
        pod: &'p Pod,
    ) -> Result<Self, Rejection> {
        Ok(Self {
            request,
            pod,
            own: Own::read(config, pod)?,
            annotated: false,
            denials: Vec::new(),
        })
    }

    /// Applies the rules of one map, in order.
    pub(crate) fn apply(&mut self, place: Place, rules: &[Rule]) -> Result<(), Rejection> {
        let mut removed = false;
        for rule in rules {
            match rule.mode {
                Mode::Remove => removed |= self.remove(place, rule)?,
                Mode::AddIfAbsent => {
                    let own = self.own.get(place, &rule.key);
                    self.write(place, rule, own)?;
                }
                Mode::Overwrite => self.write(place, rule, None)?,
            }
        }
        if removed && self.pod.keys(place.path())?.is_empty() {
            self.pod.remove(place.path())?;
        }
        Ok(())
    }

    /// Copies keys from the namespace's map of the same kind, unless the pod has them.
    pub(crate) fn inherit(&mut self, place: Place, inherited: &[String]) -> Result<(), Rejection> {
        for key in inherited {
            let value = match place {
                Place::Label => self.request.namespace_label(key),
                Place::Annotation => self.request.namespace_annotation(key),
            };
            let Some(value) = value else {
                skip(
                    place,
                    key,
                    &["the namespace has no ", place.noun(), " of this key"].concat(),
                );
                continue;
            };
            match self.own.get(place, key) {
                None => self.set(place, key, &keys::path(place, key), &value)?,
                Some(own) => note_conflict(place, key, &own, &value),
            }
        }
        Ok(())
    }

    /// Ends the work: the pod is denied with every reason at once.
    pub(crate) fn finish(mut self) -> Result<(), Rejection> {
        if self.annotated {
            self.check_annotations_size()?;
        }
        if self.denials.is_empty() {
            return Ok(());
        }
        Err(Rejection::Denied(self.denials.join("; ")))
    }

    /// Gives a key the rule's value, unless the pod has its `own`, which wins.
    fn write(&mut self, place: Place, rule: &Rule, own: Option<String>) -> Result<(), Rejection> {
        let template = rule.value.as_deref().unwrap_or_default();
        let value = match template::render(template, self.request, self.pod)? {
            Ok(value) => match keys::value_error(place, &value) {
                None => Ok(value),
                Some(error) => Err(["its value of ", template, " ", error].concat()),
            },
            Err(missing) => Err(missing),
        };
        let value = match (value, &rule.default, rule.on_missing) {
            (Ok(value), _, _) => value,
            (Err(_), Some(default), _) => default.clone(),
            // The pod needs no value of ours.
            (Err(_), None, _) if own.is_some() => return Ok(()),
            (Err(reason), None, OnMissing::Skip) => {
                skip(place, &rule.key, &reason);
                return Ok(());
            }
            (Err(reason), None, OnMissing::Deny) => {
                let denial = [place.noun(), " ", &rule.key, " is required: ", &reason];
                self.denials.push(denial.concat());
                return Ok(());
            }
        };
        match own {
            None => self.set(place, &rule.key, &rule.path, &value),
            Some(own) => {
                note_conflict(place, &rule.key, &own, &value);
                Ok(())
            }
        }
    }

    fn set(&mut self, place: Place, key: &str, path: &str, value: &str) -> Result<(), Rejection> {
        match self.pod.set_json(path, &json::quote(value)) {
            Err(error) => skip_if_forbidden(place, key, error)?,
            Ok(()) => self.annotated |= place == Place::Annotation,
        }
        Ok(())
    }

    fn remove(&self, place: Place, rule: &Rule) -> Result<bool, Rejection> {
        match self.pod.remove(&rule.path) {
            Err(error) => {
                skip_if_forbidden(place, &rule.key, error)?;
                Ok(false)
            }
            Ok(removed) => Ok(removed),
        }
    }

    fn check_annotations_size(&mut self) -> Result<(), Rejection> {
        let path = Place::Annotation.path();
        let text = self.pod.get_json(path)?.unwrap_or_default();
        // As JSON they are never shorter than keys and values alone, so nearly every pod is done here.
        if text.len() <= ANNOTATIONS_LIMIT {
            return Ok(());
        }
        let annotations = self.pod.annotations();
        let mut size = 0;
        for key in annotations.keys()? {
            size += key.len() + annotations.get(&key)?.map_or(0, |value| value.len());
        }
        if size > ANNOTATIONS_LIMIT {
            let denial = "the annotations are larger than 262144 bytes together: shorten the pod's or those of the plugin";
            self.denials.push(denial.to_owned());
        }
        Ok(())
    }
}

/// What the plugin was granted was settled when it was loaded: what is forbidden now is a label that a selector needs.
fn skip_if_forbidden(place: Place, key: &str, error: Error) -> Result<(), Rejection> {
    let Error::Forbidden(reason) = error else {
        return Err(error.into());
    };
    skip(place, key, &reason);
    Ok(())
}

fn note_conflict(place: Place, key: &str, own: &str, value: &str) {
    if own != value {
        note(&[place.noun(), " ", key, ": the pod's own value is kept"].concat());
    }
}

fn skip(place: Place, key: &str, reason: &str) {
    note(&[place.noun(), " ", key, " skipped: ", reason].concat());
}
