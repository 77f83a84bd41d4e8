//! What drifted in a cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::changed::Change;
use super::judge::{Unclear, Unjudged};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// How many pods were looked at.
    pub(crate) pods: u64,
    /// Why it is not known which of them missed the chain; none if it is known.
    pub(crate) unjudged: Option<Unjudged>,
    pub(crate) namespaces: BTreeMap<String, Counts>,
    /// By namespace and owner.
    pub(crate) missed: Vec<Row>,
    /// By namespace and owner.
    pub(crate) changed: Vec<Row>,
    /// The chains that pods passed, the newest pod first.
    pub(crate) chains: Vec<ChainPods>,
    /// How many pods passed chains that are not listed, since there are too many.
    pub(crate) other_chains: u64,
    /// Pods of which it is not known whether they missed the chain.
    pub(crate) unclear: BTreeMap<Unclear, u64>,
    /// Pods without a stamp that are older than the webhook configuration.
    pub(crate) older: u64,
    /// Pods without a stamp on which no plugin would run.
    pub(crate) unmatched: u64,
    /// Pods without a stamp that the webhook does not select.
    pub(crate) not_selected: u64,
    /// Pods that have ended, are being deleted, or mirror files of nodes. They are not among the others.
    pub(crate) left_out: u64,
    /// Pods whose stamps do not list all paths.
    pub(crate) not_whole: u64,
}

/// The pods of a namespace.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) missed: u64,
    pub(crate) changed: u64,
    /// Of another chain than the expected one; 0 if that is not known.
    pub(crate) older: u64,
}

/// Stands for the kind of those owners that are not listed, since there are too many.
pub(crate) const MORE_OWNERS: &str = "more owners";

/// The pods of an owner.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) namespace: String,
    /// `Pod` for a pod without owner, or [`MORE_OWNERS`].
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) pods: u64,
    /// Of the first pods.
    pub(crate) names: Vec<String>,
    /// Of missed pods, if the chain is known: those that would have run.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) plugins: BTreeSet<String>,
    /// Of changed pods: the first changes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) changes: BTreeSet<Change>,
    #[serde(skip)]
    pub(crate) has_more_changes: bool,
    /// Whether the template that the owner makes pods of was changed.
    #[serde(skip)]
    pub(crate) is_template_changed: bool,
}

/// The pods that passed a chain.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct ChainPods {
    pub(crate) digest: String,
    pub(crate) pods: u64,
    /// When the newest of them was created.
    #[serde(serialize_with = "text")]
    pub(crate) newest: Option<Timestamp>,
    /// Whether it is the expected chain; none if that is not known.
    #[serde(rename = "isThatOfPlugins")]
    pub(crate) is_expected: Option<bool>,
}

fn text<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.to_string()).serialize(to)
}

impl Findings {
    pub(crate) fn has_drifted(&self) -> bool {
        !self.missed.is_empty() || !self.changed.is_empty()
    }
}

impl Row {
    /// How many pods are not named.
    pub(crate) fn unnamed(&self) -> u64 {
        let named = u64::try_from(self.names.len()).unwrap_or(u64::MAX);
        self.pods.saturating_sub(named)
    }
}
