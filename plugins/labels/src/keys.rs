//! The two maps, what is wrong with their keys and values, and the keys that are not ours to change.

use std::fmt;

use podloom_plugin_sdk::{Request, names, path};

/// Which of the pod's two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Map {
    Labels,
    Annotations,
}

impl Map {
    pub(crate) const BOTH: [Self; 2] = [Self::Labels, Self::Annotations];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Labels => "/metadata/labels",
            Self::Annotations => "/metadata/annotations",
        }
    }

    /// Returns the path of a key.
    pub(crate) fn key(self, key: &str) -> String {
        path::field(self.path(), key)
    }

    /// Returns what the namespace has of a key.
    pub(crate) fn of_namespace(self, request: &Request, key: &str) -> Option<String> {
        match self {
            Self::Labels => request.namespace_label(key),
            Self::Annotations => request.namespace_annotation(key),
        }
    }

    /// Returns what the submitted object has of a key.
    pub(crate) fn of_object(self, request: &Request, key: &str) -> Option<String> {
        match self {
            Self::Labels => request.label(key),
            Self::Annotations => request.annotation(key),
        }
    }
}

/// What one of its entries is called.
impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Labels => "label",
            Self::Annotations => "annotation",
        })
    }
}

/// Labels without a prefix that controllers find their pods by; those with one are in a reserved domain.
const CONTROLLER_KEYS: [&str; 5] = [
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "pod-template-generation",
    "pod-template-hash",
];

/// Why a key must not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Kubernetes' own; the configuration may opt in.
    Kubernetes,
    /// Written by the host, which refuses it from anyone else.
    Host,
}

/// Returns whose key this is, `None` if it is free for use.
pub(crate) fn protection(map: Map, key: &str) -> Option<Protection> {
    let Some((domain, _)) = key.split_once('/') else {
        let is_used = map == Map::Labels && CONTROLLER_KEYS.contains(&key);
        return is_used.then_some(Protection::Kubernetes);
    };
    let host = match map {
        Map::Labels => "selenosis.io",
        Map::Annotations => "podloom.dev",
    };
    if domain == host {
        return Some(Protection::Host);
    }
    let is_reserved = within(domain, "kubernetes.io") || within(domain, "k8s.io");
    is_reserved.then_some(Protection::Kubernetes)
}

/// Whether `domain` is `parent` or below it; annotation prefixes may have capitals.
fn within(domain: &str, parent: &str) -> bool {
    let Some(start) = domain.len().checked_sub(parent.len()) else {
        return false;
    };
    let (child, tail) = domain.as_bytes().split_at(start);
    tail.eq_ignore_ascii_case(parent.as_bytes()) && matches!(child.last(), None | Some(b'.'))
}

/// Returns what is wrong with a key, as the end of a sentence that names it.
pub(crate) fn key_error(map: Map, key: &str) -> Option<&'static str> {
    let checked = match map {
        Map::Labels => names::label_key(key),
        Map::Annotations => names::annotation_key(key),
    };
    checked.err()
}

/// Returns what is wrong with a value, as the end of a sentence that names its key.
///
/// An annotation's value may be anything; all annotations together are limited.
pub(crate) fn value_error(map: Map, value: &str) -> Option<&'static str> {
    match map {
        Map::Labels => names::label_value(value).err(),
        Map::Annotations => None,
    }
}
