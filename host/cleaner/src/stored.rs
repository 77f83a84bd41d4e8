//! A Cleaner as the API server stores it, also one whose spec our types cannot hold: its status says so.

use kube::core::Object;
use podloom_api::{CleanerSpec, CleanerStatus};
use podloom_engine::readable::without_value;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A Cleaner as the API server stores it.
pub(super) type StoredCleaner = Object<StoredSpec, CleanerStatus>;

/// The spec of a Cleaner, or why our types cannot hold it.
#[derive(Clone, Debug)]
pub(super) struct StoredSpec(pub(super) Result<Box<CleanerSpec>, String>);

impl StoredSpec {
    /// Returns the spec, if our types can hold it.
    pub(super) fn spec(&self) -> Option<&CleanerSpec> {
        self.0.as_deref().ok()
    }
}

impl<'de> Deserialize<'de> for StoredSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spec = Value::deserialize(deserializer)?;
        let read = serde_json::from_value(spec).map(Box::new);
        Ok(Self(
            read.map_err(|error| without_value(&error.to_string())),
        ))
    }
}
