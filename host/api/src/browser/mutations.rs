//! What plugin chains did to pods: the same for thousands of Browsers and pods, so it is kept once.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::intern::Interner;
use crate::schema;

/// What a plugin chain did to a pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct Mutations {
    /// The digest of the chain.
    pub chain: String,

    /// The plugins that ran, in order.
    #[schemars(transform = schema::atomic_list)]
    pub plugins: Vec<PluginMutation>,
}

/// What one plugin did to a pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct PluginMutation {
    /// The plugin's name in the chain.
    pub name: String,
    /// The version that the plugin reports.
    pub version: String,
    /// The digest of the plugin's file.
    pub sha256: String,
    /// How many paths of the pod the plugin wrote.
    pub writes: i64,
}

impl Mutations {
    /// Returns this record, in the memory of an equal one if something holds such a record.
    pub fn interned(self) -> Arc<Self> {
        static ALL: Interner<Mutations> = Interner::new();
        ALL.intern(self)
    }
}

/// How serde reads and writes an interned record.
pub(super) mod interned {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Mutations;

    pub(crate) fn serialize<S: Serializer>(
        mutations: &Option<Arc<Mutations>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        mutations.as_deref().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Mutations>>, D::Error> {
        let mutations = Option::<Mutations>::deserialize(deserializer)?;
        Ok(mutations.map(Mutations::interned))
    }
}
