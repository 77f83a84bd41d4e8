//! What is read of a pod, in one call.

use std::fmt;

use podloom_plugin_sdk::{Error, Pod, json};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::config::Config;
use crate::json::Object;
use crate::lists::{List, Lists};

/// The parts of a pod that the configuration makes the plugin look at, as they were before it wrote anything.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// All labels if there are selectors, else only our own.
    pub(crate) labels: Object,
    pub(crate) annotations: Object,
    /// Fields of the spec, but not its containers.
    pub(crate) spec: Object,
    pub(crate) lists: Lists,
}

impl View {
    pub(crate) fn read(config: &Config, pod: &Pod) -> Result<Self, Error> {
        let mut view = Self::default();
        if let Some(text) = pod.view_json("", &config.prepared.fields)? {
            let part = Part {
                level: Level::Pod,
                view: &mut view,
            };
            json::from_str_seed(&text, part).map_err(|error| Error::Decode {
                path: String::new(),
                message: error.to_string(),
            })?;
        }
        Ok(view)
    }
}

/// Reads one object of the view, and those in it.
struct Part<'v> {
    level: Level,
    view: &'v mut View,
}

#[derive(Clone, Copy)]
enum Level {
    Pod,
    Metadata,
    Spec,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let view = self.view;
        while let Some(key) = map.next_key::<String>()? {
            let level = match (self.level, key.as_str()) {
                (Level::Pod, "metadata") => Level::Metadata,
                (Level::Pod, "spec") => Level::Spec,
                (Level::Metadata, "labels") => {
                    view.labels = map.next_value()?;
                    continue;
                }
                (Level::Metadata, "annotations") => {
                    view.annotations = map.next_value()?;
                    continue;
                }
                (Level::Spec, name) => {
                    match List::ALL.into_iter().find(|list| list.name() == name) {
                        Some(list) => *view.lists.containers_mut(list) = map.next_value()?,
                        None => view.spec.push(key, map.next_value()?),
                    }
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            map.next_value_seed(Part { level, view })?;
        }
        Ok(())
    }
}
