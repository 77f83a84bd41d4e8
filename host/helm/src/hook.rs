//! The hooks of a chart.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::manifest::{self, ChartObject, Document};
use crate::yaml::{self, ManifestError};

/// The kind whose objects are never deleted: all objects of the kinds that they define would go with them.
const DEFINITION: &str = "CustomResourceDefinition";

/// A hook: an object that is created at an event, and awaited.
///
/// `Debug` does not show its manifest, which may hold secrets.
#[derive(Deserialize, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its name: that of its object.
    pub name: String,
    /// The kind of its object.
    pub kind: String,
    /// The manifest of its object, as YAML.
    pub manifest: String,
    /// Hooks with less weight run first.
    #[serde(default, deserialize_with = "or_default")]
    pub weight: i64,
    #[serde(default, deserialize_with = "or_default")]
    events: Vec<HookEvent>,
    #[serde(default, deserialize_with = "or_default")]
    delete_policies: Vec<HookDeletePolicy>,
}

/// When a hook runs.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    /// Before the objects of the release are deleted.
    PreDelete,
    /// After that.
    PostDelete,
    /// At another event, which is no part of uninstalling.
    #[serde(other)]
    Other,
}

/// When the object of a hook is deleted.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum HookDeletePolicy {
    /// Before it is created, if an earlier run has left one. This is so if the hook names no policy.
    BeforeHookCreation,
    /// After all hooks of the event have succeeded.
    HookSucceeded,
    /// After it has failed.
    HookFailed,
    /// A policy that we do not know.
    #[serde(other)]
    Other,
}

/// The object of a hook.
///
/// `Debug` does not show the object itself, which may hold secrets.
#[derive(Clone, PartialEq)]
pub struct HookObject {
    /// Which object this is.
    pub object: ChartObject,
    /// The object itself.
    pub document: Value,
}

/// Go writes empty lists as null.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Hook {
    /// Returns whether it runs at this event.
    pub fn runs_at(&self, event: HookEvent) -> bool {
        self.events.contains(&event)
    }

    /// Returns whether its object is deleted at this time. A CustomResourceDefinition never is.
    pub fn is_deleted(&self, policy: HookDeletePolicy) -> bool {
        if self.kind == DEFINITION {
            return false;
        }
        match self.delete_policies.as_slice() {
            [] => policy == HookDeletePolicy::BeforeHookCreation,
            policies => policies.contains(&policy),
        }
    }

    /// Returns the object that is created, in the namespace of the release unless it names its own.
    ///
    /// A hook that has several objects, or none, or another one than it says, is an error. So is an object without a name, which
    /// could not be found again.
    pub fn object(&self, namespace: &str) -> Result<HookObject, ManifestError> {
        let object = self.identity(namespace)?;
        let documents: Vec<Value> = yaml::hook_documents(&self.manifest)?;
        let [document] =
            <[Value; 1]>::try_from(documents).map_err(|_| ManifestError::NoHookObject)?;
        Ok(HookObject { object, document })
    }

    /// Returns which object that is. It takes little memory, whatever the object has.
    ///
    /// # Errors
    ///
    /// As [`object`](Self::object).
    pub fn identity(&self, namespace: &str) -> Result<ChartObject, ManifestError> {
        let heads: Vec<Document> = yaml::hook_documents(&self.manifest)?;
        let [head] = <[Document; 1]>::try_from(heads).map_err(|_| ManifestError::NoHookObject)?;
        let object = manifest::object(head, namespace).ok_or(ManifestError::NoKind(1))?;
        match object.name.is_empty() || object.name != self.name || object.kind != self.kind {
            true => Err(ManifestError::OtherHookObject),
            false => Ok(object),
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("weight", &self.weight)
            .field("events", &self.events)
            .field("delete_policies", &self.delete_policies)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HookObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookObject")
            .field("object", &self.object)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
