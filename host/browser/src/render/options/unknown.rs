//! Keys in the options that nothing reads: most are slips.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use podloom_api::names;
use serde_json::{Map, Value};

use super::text;
use crate::render::similar;

/// A key in the options that nothing reads: it is ignored, since clients may write more than this reader knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownOption {
    /// Where it is, in one line.
    path: String,
    /// The keys that are read there.
    known: Vec<String>,
    /// The one of them that may have been meant.
    similar: Option<String>,
}

impl fmt::Display for UnknownOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            known,
            similar,
        } = self;
        let annotation = names::annotation::OPTIONS;
        write!(f, "annotation {annotation}: {path} is ignored, ")?;
        match similar {
            Some(similar) => write!(f, "did you mean {similar:?}?"),
            None => write!(f, "use only {}", similar::both(known)),
        }
    }
}

/// The keys of the options, and those of each container in them.
const KEYS: [&str; 2] = ["labels", "containers"];
const CONTAINER_KEYS: [&str; 1] = ["env"];

/// Returns the keys in a session's options that are ignored; none if the options cannot be read at all.
pub(crate) fn unknown_options(metadata: &ObjectMeta) -> Vec<UnknownOption> {
    let Some(Ok(Value::Object(root))) = text(metadata).map(serde_json::from_str) else {
        return Vec::new();
    };
    let mut unknown = unknown_keys("", &root, &KEYS);
    let containers = root.get("containers").and_then(Value::as_object);
    for (container, fields) in containers.into_iter().flatten() {
        let path = format!("containers.{}.", similar::shown(container));
        let fields = fields.as_object().into_iter();
        unknown.extend(fields.flat_map(|fields| unknown_keys(&path, fields, &CONTAINER_KEYS)));
    }
    unknown
}

fn unknown_keys(path: &str, fields: &Map<String, Value>, known: &[&str]) -> Vec<UnknownOption> {
    let known: Vec<String> = known.iter().map(|&key| key.to_owned()).collect();
    let unknown = fields.keys().filter(|key| !known.contains(key));
    unknown
        .map(|key| UnknownOption {
            path: format!("{path}{}", similar::shown(key)),
            similar: similar::closest(key, &known),
            known: known.clone(),
        })
        .collect()
}
