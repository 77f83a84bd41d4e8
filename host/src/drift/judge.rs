//! What is to be said of one pod.

use std::collections::BTreeSet;

use jiff::Timestamp;
use podloom_mutation::{Dimension, PodRequest};
use podloom_mutators::{Chain, Match, MutationEntry};
use serde_json::Value;

use super::changed::{Change, Stamped};
use super::namespaces::Namespaces;
use super::pod::Pod;
use super::webhook::{Selected, Webhook};
use crate::stamp::Stamp;

/// The chain that should have seen the pods.
#[derive(Clone)]
pub(crate) struct Expected {
    pub(crate) digest: String,
    /// The names of its plugins, and on which pods they run.
    pub(crate) plugins: Vec<(String, Match)>,
}

/// Judges pods.
pub(super) struct Judge {
    pub(super) webhook: Webhook,
    pub(super) namespaces: Namespaces,
    /// None if it is not known: then a plugin matches each pod.
    pub(super) expected: Option<Expected>,
}

/// What is to be said of a pod.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// It is no matter: it has ended, is being deleted, or only mirrors a file of a node.
    LeftOut,
    Passed(Passed),
    /// It has no stamp. If a Deployment of Podloom's owns it, the stamp may be there.
    Unstamped(Unstamped),
}

/// A pod that passed a chain, or all pods of a Deployment that did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Passed {
    /// Of the chain.
    pub(super) digest: String,
    /// The first ones.
    pub(super) changes: BTreeSet<Change>,
    /// Whether all paths that the chain wrote are known, and who owns them.
    pub(super) is_whole: bool,
}

/// Why a pod has no stamp.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Unstamped {
    /// The webhook selects it, and these plugins would run on it; none if the chain is not known.
    Missed(Vec<String>),
    /// No plugin would run on it.
    Unmatched,
    /// It is older than the webhook configuration.
    Older,
    /// The webhook does not select it.
    NotSelected,
    Unclear(Unclear),
}

/// Why it is not known which pods missed the chain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unjudged {
    /// The cluster has no webhook configuration of this name.
    NoConfiguration,
    /// Nobody gave the right to read the webhook configuration.
    UnreadConfiguration,
}

/// What is not known of a pod.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Unclear {
    /// Whether the webhook selects it: the configuration may not be read.
    Configuration,
    /// Whether the webhook selects it: the labels of its namespace may not be read.
    Namespace,
    /// Whether the webhook selects it: it has `matchConditions`.
    Conditions,
    /// Whether the stamp is on its Deployment, which may not be read.
    Deployment,
    /// Anything: it is too large to be read.
    Size,
}

impl Expected {
    pub(crate) fn of(chain: &Chain) -> Self {
        let plugins = chain.plugins().iter();
        Self {
            digest: chain.digest().to_owned(),
            plugins: plugins
                .map(|plugin| (plugin.name.clone(), plugin.selection().clone()))
                .collect(),
        }
    }
}

impl Passed {
    /// What the stamp of an object says, which has the pod at this path; none if it has no stamp.
    pub(super) fn of(object: &Value, pod: &'static str) -> Option<Self> {
        let stamp = Stamp::of(object)?;
        let digest = stamp.digest?;
        let stamped = Stamped {
            object,
            entries: stamp.entries.as_deref().unwrap_or_default(),
            pod,
        };
        let changes = stamped.changes();
        let lists_all = stamp.entries.is_some_and(|it| it.iter().all(is_whole));
        Some(Self {
            digest,
            changes: changes.first,
            is_whole: lists_all && changes.is_whole,
        })
    }
}

impl Judge {
    /// Why it is not known which pods missed the chain; none if it is known.
    pub(super) fn unjudged(&self) -> Option<Unjudged> {
        match self.webhook {
            Webhook::Installed(_) => None,
            Webhook::Absent => Some(Unjudged::NoConfiguration),
            Webhook::Unread => Some(Unjudged::UnreadConfiguration),
        }
    }

    pub(super) fn judge(&self, pod: &Pod<'_>) -> Verdict {
        if pod.is_over() || pod.is_mirror() {
            return Verdict::LeftOut;
        }
        match Passed::of(pod.0, "") {
            Some(passed) => Verdict::Passed(passed),
            None => Verdict::Unstamped(self.unstamped(pod)),
        }
    }

    fn unstamped(&self, pod: &Pod<'_>) -> Unstamped {
        let installed = match &self.webhook {
            Webhook::Installed(installed) => installed,
            Webhook::Absent => return Unstamped::NotSelected,
            Webhook::Unread => return Unstamped::Unclear(Unclear::Configuration),
        };
        let labels = pod.labels();
        match installed.selects(pod.namespace(), &self.namespaces, &labels) {
            // Older first: that is known, whatever else is not.
            Selected::No => Unstamped::NotSelected,
            _ if !is_older(installed.created, pod.created()) => Unstamped::Older,
            Selected::UnknownNamespace => Unstamped::Unclear(Unclear::Namespace),
            Selected::Conditional => Unstamped::Unclear(Unclear::Conditions),
            Selected::Yes => self.matched(pod),
        }
    }

    /// If no plugin matches the labels of a pod, none runs, so none changes them for another one.
    fn matched(&self, pod: &Pod<'_>) -> Unstamped {
        let Some(expected) = &self.expected else {
            return Unstamped::Missed(Vec::new());
        };
        let namespace = pod.namespace();
        let labels = pod.labels();
        let request = PodRequest {
            kind: "Pod",
            namespace: namespace.to_owned(),
            namespace_labels: self.namespaces.labels(namespace),
            ..PodRequest::default()
        };
        let label = |key: &str| labels.get(key).map(String::as_str);
        let is_known = self.namespaces.is_known(namespace);
        let mut is_unclear = false;
        let mut matching = Vec::new();
        for (name, selection) in &expected.plugins {
            match selection.excludes(&request, label) {
                // A selector such as NotIn holds for labels that are only unknown.
                None | Some(Dimension::NamespaceSelector)
                    if !is_known && selection.selects_namespaces() =>
                {
                    is_unclear = true;
                }
                None => matching.push(name.clone()),
                Some(_) => {}
            }
        }
        match (matching.is_empty(), is_unclear) {
            (false, _) => Unstamped::Missed(matching),
            (true, true) => Unstamped::Unclear(Unclear::Namespace),
            (true, false) => Unstamped::Unmatched,
        }
    }
}

/// Whether an entry of a stamp lists all paths. Stamps of older versions of Podloom have none.
fn is_whole(entry: &MutationEntry) -> bool {
    !entry.cut && (entry.writes == 0 || !entry.paths.is_empty())
}

/// Whether the configuration was there before the pod. Times are in seconds, and within the same one nobody knows.
fn is_older(configuration: Option<Timestamp>, pod: Option<Timestamp>) -> bool {
    matches!((configuration, pod), (Some(configuration), Some(pod)) if configuration < pod)
}
