//! The pod's own values of the keys that the configuration only adds.

use std::fmt;

use podloom_plugin_sdk::{Error, Pod, json};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::keys::{self, Place};
use crate::{Config, Mode};

/// What the pod has of these keys.
#[derive(Debug, Default)]
pub(crate) struct Own(Vec<(Place, String, String)>);

impl Own {
    /// Reads all of them at once.
    pub(crate) fn read(config: &Config, pod: &Pod) -> Result<Self, Error> {
        let mut own = Self::default();
        if config.added.is_empty() {
            return Ok(own);
        }
        let fields: Vec<&str> = config.added.iter().map(String::as_str).collect();
        let Some(text) = pod.view_json("", &fields)? else {
            return Ok(own);
        };
        let pod = Part {
            level: Level::Pod,
            own: &mut own,
        };
        json::from_str_seed(&text, pod).map_err(|error| Error::Decode {
            path: String::new(),
            message: error.to_string(),
        })?;
        Ok(own)
    }

    /// The pod's value of a key.
    pub(crate) fn get(&self, place: Place, key: &str) -> Option<String> {
        let found = self
            .0
            .iter()
            .find(|(of, known, _)| *of == place && known == key);
        found.map(|(.., value)| value.clone())
    }
}

/// Returns the paths of these keys.
pub(crate) fn paths(config: &Config) -> Vec<String> {
    let mut paths = Vec::new();
    for place in [Place::Label, Place::Annotation] {
        let added = config
            .rules(place)
            .iter()
            .filter(|rule| rule.mode == Mode::AddIfAbsent)
            .map(|rule| &rule.key);
        for key in added.chain(config.inherited(place)) {
            paths.push(keys::path(place, key));
        }
    }
    paths
}

/// Reads one object of the view, and those in it.
struct Part<'o> {
    level: Level,
    own: &'o mut Own,
}

#[derive(Clone, Copy)]
enum Level {
    Pod,
    Metadata,
    Map(Place),
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
        while let Some(key) = map.next_key::<String>()? {
            let level = match (self.level, key.as_str()) {
                (Level::Map(place), _) => {
                    let value = map.next_value()?;
                    self.own.0.push((place, key, value));
                    continue;
                }
                (Level::Pod, "metadata") => Level::Metadata,
                (Level::Metadata, "labels") => Level::Map(Place::Label),
                (Level::Metadata, "annotations") => Level::Map(Place::Annotation),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            map.next_value_seed(Part {
                level,
                own: self.own,
            })?;
        }
        Ok(())
    }
}
