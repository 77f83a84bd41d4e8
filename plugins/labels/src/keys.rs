//! Keys and values as Kubernetes allows them, and the keys that are not ours to change.

use std::fmt;

use podloom_plugin_sdk::{Request, path};

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
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if !is_subdomain(map, prefix) {
                return Some(
                    "has a prefix that is no DNS subdomain (lower case letters, digits, `-` and `.`, at most 253)",
                );
            }
            name
        }
        None => key,
    };
    (name.is_empty() || !is_word(name)).then_some(
        "has a name that is not 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
    )
}

/// Returns what is wrong with a value, as the end of a sentence that names its key.
///
/// An annotation's value may be anything; all annotations together are limited.
pub(crate) fn value_error(map: Map, value: &str) -> Option<&'static str> {
    (map == Map::Labels && !value.is_empty() && !is_word(value)).then_some(
        "is not at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
    )
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.len() <= 63 && bytes.iter().all(allowed) && has_alphanumeric_ends(bytes)
}

fn is_subdomain(map: Map, text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|part| {
            let bytes = part.as_bytes();
            // The API server lowers an annotation's key before it checks it.
            let is_letter = |byte: &u8| {
                byte.is_ascii_lowercase() || (map == Map::Annotations && byte.is_ascii_uppercase())
            };
            let allowed = |byte: &u8| is_letter(byte) || byte.is_ascii_digit() || *byte == b'-';
            bytes.iter().all(allowed) && has_alphanumeric_ends(bytes)
        })
}

fn has_alphanumeric_ends(bytes: &[u8]) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    is_end(bytes.first()) && is_end(bytes.last())
}
