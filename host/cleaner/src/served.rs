//! A kind that the API server serves.

use std::fmt;

use kube::core::ApiResource;
use podloom_engine::kind::ResourceScope;
use serde_json::{Map, Value};

use super::failure::{FailureKind, RequestError};

const API_VERSION: &str = "apiVersion";
const KIND: &str = "kind";

/// A kind, by what its URLs have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KindKey {
    /// The API group; empty for the core.
    pub(super) group: String,
    /// The version.
    pub(super) version: String,
    /// The plural.
    pub(super) plural: String,
}

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServedKind {
    /// What its URLs and objects have.
    pub(super) resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub(super) scope: ResourceScope,
}

impl ServedKind {
    /// Returns what tells it from other kinds.
    pub(super) fn key(&self) -> KindKey {
        KindKey {
            group: self.resource.group.clone(),
            version: self.resource.version.clone(),
            plural: self.resource.plural.clone(),
        }
    }

    /// Returns whether it has this group and this name.
    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        (&*self.resource.group, &*self.resource.kind) == (group, kind)
    }

    /// Returns the namespace of its objects, for a Cleaner in this one; none if they are in none.
    pub(super) fn namespace<'a>(&self, of_cleaner: &'a str) -> Option<&'a str> {
        match self.scope {
            ResourceScope::Namespaced => Some(of_cleaner),
            ResourceScope::Cluster => None,
        }
    }

    /// Fills in what the API server leaves out in lists of its own kinds.
    pub(super) fn completed(&self, mut object: Value) -> Value {
        if let Value::Object(fields) = &mut object {
            let resource = &self.resource;
            let missing = |value: Option<&Value>| value.is_none_or(|value| value == "");
            if missing(fields.get(API_VERSION)) {
                fields.insert(API_VERSION.to_owned(), resource.api_version.clone().into());
            }
            if missing(fields.get(KIND)) {
                fields.insert(KIND.to_owned(), resource.kind.clone().into());
            }
        }
        object
    }

    /// Returns a list as CEL sees it.
    pub(super) fn list(&self, metadata: Value, items: Vec<Value>) -> Value {
        // Not by `json!`, which would copy the objects.
        Value::Object(Map::from_iter([
            (
                API_VERSION.to_owned(),
                self.resource.api_version.clone().into(),
            ),
            (
                KIND.to_owned(),
                format!("{}List", self.resource.kind).into(),
            ),
            ("metadata".to_owned(), metadata),
            ("items".to_owned(), items.into()),
        ]))
    }

    /// Returns the error for an answer that is no list, although it was asked for one.
    pub(super) fn no_list(&self) -> RequestError {
        RequestError {
            kind: FailureKind::Transient,
            message: format!(
                "the answer of the API server is no list of {}",
                self.resource.plural
            ),
        }
    }

    /// Returns the error for a request that found the kind gone.
    pub(super) fn not_served(&self) -> RequestError {
        RequestError {
            kind: FailureKind::NotServed,
            message: format!(
                "the API server does not serve {} any more",
                self.resource.plural
            ),
        }
    }
}

impl fmt::Display for KindKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        match self.group.as_str() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

/// Writes a group and a version as `apiVersion` has them.
pub(super) fn group_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}
