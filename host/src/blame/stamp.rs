//! What a pod's stamp says.

use std::collections::BTreeSet;

use podloom_mutators::MutationEntry;
use serde_json::Value;

use crate::stamp;

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
        let Some(stamp) = stamp::Stamp::of(pod) else {
            return Self::None;
        };
        match (stamp.digest, stamp.entries) {
            (Some(chain), Some(plugins)) if names_each_once(&plugins) => {
                Self::Read { chain, plugins }
            }
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

/// As a chain does.
fn names_each_once(plugins: &[MutationEntry]) -> bool {
    let names: BTreeSet<&str> = plugins.iter().map(|it| it.name.as_str()).collect();
    names.len() == plugins.len()
}
