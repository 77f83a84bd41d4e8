//! What a pod's stamp says.

use podloom_mutators::{CHAIN, MUTATIONS, MutationEntry};
use serde_json::Value;

/// What a pod's stamp says.
pub(super) enum Stamp {
    /// It has none, so it passed no chain.
    None,
    /// It has one that podloom did not write.
    Unreadable,
    Read {
        /// The chain's digest.
        chain: String,
        /// In the order of the chain.
        plugins: Vec<MutationEntry>,
    },
}

impl Stamp {
    pub(super) fn of(pod: &Value) -> Self {
        let annotations = pod
            .get("metadata")
            .and_then(|metadata| metadata.get("annotations"));
        let text = |key: &str| annotations.and_then(|it| it.get(key)?.as_str());
        let (chain, mutations) = (text(CHAIN), text(MUTATIONS));
        if chain.is_none() && mutations.is_none() {
            return Self::None;
        }
        let plugins = mutations.and_then(|text| serde_json::from_str(text).ok());
        match (chain, plugins) {
            (Some(chain), Some(plugins)) => Self::Read {
                chain: chain.to_owned(),
                plugins,
            },
            _ => Self::Unreadable,
        }
    }

    /// The plugins that it lists, in the order of the chain.
    pub(super) fn plugins(&self) -> &[MutationEntry] {
        match self {
            Self::Read { plugins, .. } => plugins,
            _ => &[],
        }
    }
}
