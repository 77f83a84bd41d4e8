//! What is to be said of one pod.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use podloom_api::names::{self, condition};
use podloom_mutation::{Dimension, Operation, PodRequest, texts};
use podloom_mutators::{CHAIN, Chain, MUTATIONS, Match, MutationEntry};
use serde::Serialize;
use serde_json::Value;

use super::Unclear;
use super::webhook::Webhook;
use crate::exceptions::Exceptions;
use crate::managed_fields::{Entry, ManagedFields};
use crate::manifest::{self, metadata};
use crate::output::short;
use crate::render::Namespaces;
use crate::stamp::Stamp;

/// The chain that should have seen the pods.
#[derive(Clone)]
pub(crate) struct Expected {
    pub(crate) digest: String,
    /// The names of its plugins, and on which pods they run.
    pub(crate) plugins: Vec<(String, Match)>,
}

/// Judges pods.
pub(crate) struct Judge {
    pub(super) webhook: Webhook,
    pub(crate) namespaces: Namespaces,
    /// Those whose annotations are too large to be kept.
    pub(super) large_namespaces: HashSet<String>,
    /// Which plugins let which pods pass.
    pub(super) exceptions: Exceptions,
    /// None if it is not known: then a plugin matches each pod.
    pub(crate) expected: Option<Expected>,
}

/// What is to be said of a pod.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// It is no matter: it has ended, is being deleted, waits at the gate, or only mirrors a file of a node.
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
    /// Whether a ChainException let it pass.
    pub(super) is_excepted: bool,
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

/// Why a pod should be replaced. The most urgent comes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Need {
    /// It missed the chain.
    Missed,
    /// It passed a chain that nobody may have passed.
    Banned,
    /// It passed another chain than the present one.
    Older,
}

/// Which chains pods are replaced for that passed them. Those that missed the chain always are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unwanted {
    /// The digests of banned ones.
    pub(crate) banned: Vec<String>,
    /// All but the present one.
    pub(crate) older: bool,
}

impl Need {
    /// In reports and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Missed => "missed",
            Self::Banned => "banned",
            Self::Older => "older",
        }
    }
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
        let entries = stamp.entries.as_deref();
        let (changes, is_whole) = changes(object, entries.unwrap_or_default(), pod);
        Some(Self {
            digest,
            changes,
            is_excepted: entries.is_some_and(|it| it.iter().any(|it| it.exception.is_some())),
            is_whole: is_whole && entries.is_some_and(|it| it.iter().all(lists_all)),
        })
    }
}

impl Judge {
    /// Why it is not known which pods missed the chain; none if it is known.
    pub(crate) fn unjudged(&self) -> Option<&'static str> {
        match self.webhook {
            Webhook::Installed { .. } => None,
            Webhook::Absent => Some("the cluster has no"),
            Webhook::Unread => Some("you may not get"),
        }
    }

    pub(super) fn judge(&self, pod: &Pod<'_>) -> Verdict {
        if pod.is_left_out() {
            return Verdict::LeftOut;
        }
        match Passed::of(pod.0, "") {
            Some(passed) => Verdict::Passed(passed),
            None => Verdict::Unstamped(self.unstamped(pod)),
        }
    }

    /// Why a pod should be replaced; none if it should not, or if that is not known. One that is older than the webhook counts too.
    pub(crate) fn need(&self, pod: &Pod<'_>, unwanted: &Unwanted) -> Option<Need> {
        // The stamp of a tunnel is on its Deployment.
        if pod.is_left_out() || pod.is_of_tunnel() {
            return None;
        }
        let need = match Stamp::of(pod.0).and_then(|stamp| stamp.digest) {
            None => Need::Missed,
            Some(digest) if unwanted.banned.contains(&digest) => Need::Banned,
            Some(digest) => {
                let mut present = self.expected.iter();
                let is_older = present.any(|it| it.digest != digest);
                return (unwanted.older && is_older && self.selects(pod) == Ok(true))
                    .then_some(Need::Older);
            }
        };
        let is_selected = self.selects(pod) == Ok(true);
        let is_matched = || match need {
            Need::Missed => matches!(self.matched(pod), Unstamped::Missed(_)),
            _ => true,
        };
        (is_selected && is_matched()).then_some(need)
    }

    /// Whether not all labels and annotations of a namespace are known.
    pub(super) fn is_unread(&self, namespace: &str) -> bool {
        !self.namespaces.contains(namespace) || self.large_namespaces.contains(namespace)
    }

    fn unstamped(&self, pod: &Pod<'_>) -> Unstamped {
        let was_there = match &self.webhook {
            Webhook::Installed { created, .. } => is_older(*created, pod.created()),
            Webhook::Absent | Webhook::Unread => true,
        };
        match self.selects(pod) {
            // Older first: that is known, whatever else is not.
            Ok(false) => Unstamped::NotSelected,
            _ if !was_there => Unstamped::Older,
            Err(unclear) => Unstamped::Unclear(unclear),
            Ok(true) => self.matched(pod),
        }
    }

    /// Whether the webhook would be asked about such a pod now.
    fn selects(&self, pod: &Pod<'_>) -> Result<bool, Unclear> {
        self.is_asked(Operation::Create, pod)
    }

    /// Whether the webhook would be asked about such a pod now: a new one, or one that gets ephemeral containers.
    pub(super) fn is_asked(&self, operation: Operation, pod: &Pod<'_>) -> Result<bool, Unclear> {
        let namespace = self.namespaces.get(pod.namespace()).labels;
        let is_known = self.namespaces.contains(pod.namespace());
        let (namespace, knows_chain) = ((&namespace, is_known), self.expected.is_some());
        self.webhook
            .selects(operation, namespace, &pod.labels(), knows_chain)
    }

    /// If no plugin matches the labels of a pod, none runs, so none changes them for another one.
    fn matched(&self, pod: &Pod<'_>) -> Unstamped {
        let Some(expected) = &self.expected else {
            return Unstamped::Missed(Vec::new());
        };
        let namespace = pod.namespace();
        let request = PodRequest {
            kind: "Pod",
            namespace: namespace.to_owned(),
            namespace_labels: self.namespaces.get(namespace).labels,
            ..PodRequest::default()
        };
        let labels = pod.labels();
        let label = |key: &str| labels.get(key).map(String::as_str);
        let is_known = self.namespaces.contains(namespace);
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
fn lists_all(entry: &MutationEntry) -> bool {
    !entry.cut && (entry.writes == 0 || !entry.paths.is_empty())
}

/// Whether the configuration was there before the pod. Times are in seconds, and within the same one nobody knows.
fn is_older(configuration: Option<Timestamp>, pod: Option<Timestamp>) -> bool {
    matches!((configuration, pod), (Some(configuration), Some(pod)) if configuration < pod)
}

// What somebody changed after the chain had written it.

/// How many changes are listed, of a pod and of all pods of an owner.
pub(super) const LISTED: usize = 20;
/// How many elements of lists are looked at in one pod. A pod with many containers needs some ten thousand, and these take a few
/// milliseconds.
const WORK: u64 = 200_000;

/// A path that the chain wrote, and that another manager owns now.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Change {
    pub(crate) path: String,
    /// The plugin that wrote it; none for the stamp itself.
    pub(crate) plugin: Option<String>,
    /// The field manager.
    pub(crate) manager: String,
}

/// What was changed in an object with a stamp, which has the pod at this path: the first changes, one more than are listed, and whether
/// all paths were looked at, up to the last one of those. A value that somebody removed has no owner, so it is not found.
fn changes(object: &Value, entries: &[MutationEntry], pod: &str) -> (BTreeSet<Change>, bool) {
    let fields = ManagedFields::of(object, WORK);
    let mut first = BTreeSet::new();
    for (path, plugin) in written(entries) {
        let owners = match plugin {
            Some(_) => fields.owners_within(&format!("{pod}{path}")),
            None => fields.owners_within(&path),
        };
        let foreign = owners.into_iter().filter(|owner| is_foreign(owner));
        first.extend(foreign.map(|owner| Change {
            path: kept(&path),
            plugin: plugin.map(kept),
            manager: kept(&owner.manager),
        }));
        // Paths are sorted, and changes are by path.
        if first.len() > LISTED {
            break;
        }
    }
    keep_first(&mut first);
    (first, !fields.is_cut())
}

/// Each path that the chain wrote, and the plugin that did; none for the stamp itself.
fn written(entries: &[MutationEntry]) -> BTreeSet<(String, Option<&str>)> {
    let stamp = [CHAIN, MUTATIONS].map(|annotation| {
        let path = format!("/metadata/annotations/{}", annotation.replace('/', "~1"));
        (path, None)
    });
    let by_plugins = entries.iter().flat_map(|entry| {
        let paths = entry.paths.iter().cloned();
        paths.map(|path| (path, Some(entry.name.as_str())))
    });
    stamp.into_iter().chain(by_plugins).collect()
}

/// Keeps one change more than are listed.
pub(super) fn keep_first(changes: &mut BTreeSet<Change>) {
    while changes.len() > LISTED + 1 {
        changes.pop_last();
    }
}

/// Whether neither the one who made the object nor Podloom wrote this, but somebody after them.
fn is_foreign(entry: &Entry) -> bool {
    entry.is_later_edit() && entry.manager != names::portal::FIELD_MANAGER
}

// What matters of a pod, of its owners, and of their stamps.

/// The annotation of pods that a kubelet created from a file. Only these have a Node as their controller.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The longest text that is kept of an object: names of Kubernetes are shorter, and everyone may write longer ones elsewhere.
const TEXT: usize = 256;

/// What owns pods, and is rolled to replace them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A pod of a list.
pub(crate) struct Pod<'p>(pub(crate) &'p Value);

impl Owner {
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        let (own, _) = self.api_version.split_once('/').unwrap_or_default();
        own == group && self.kind == kind
    }
}

impl Pod<'_> {
    pub(crate) fn namespace(&self) -> &str {
        metadata(self.0, "namespace")
    }

    pub(crate) fn name(&self) -> &str {
        metadata(self.0, "name")
    }

    pub(crate) fn uid(&self) -> &str {
        metadata(self.0, "uid")
    }

    pub(crate) fn version(&self) -> &str {
        metadata(self.0, "resourceVersion")
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        metadata(self.0, "creationTimestamp").parse().ok()
    }

    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        texts(self.0, "labels")
    }

    pub(super) fn has_ephemeral_containers(&self) -> bool {
        self.0.pointer("/spec/ephemeralContainers").is_some()
    }

    /// Whether it is no matter: it has ended, is being deleted, waits at the gate, or only mirrors a file of a node.
    pub(super) fn is_left_out(&self) -> bool {
        self.is_over() || self.is_mirror() || self.is_gated()
    }

    /// Whether it has run to its end, or is being deleted: it is replaced anyway, or never again.
    pub(crate) fn is_over(&self) -> bool {
        let phase = self.0.pointer("/status/phase").and_then(Value::as_str);
        matches!(phase, Some("Succeeded" | "Failed")) || self.is_being_deleted()
    }

    pub(crate) fn is_being_deleted(&self) -> bool {
        !metadata(self.0, "deletionTimestamp").is_empty()
    }

    pub(crate) fn is_ready(&self) -> bool {
        let conditions = self.0.pointer("/status/conditions");
        let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        let mut ready = conditions.filter(|it| it["type"] == condition::READY);
        ready.any(|it| it["status"] == "True")
    }

    /// Whether it waits at the gate: nothing of it runs, and the one that replaces it passes the chain.
    pub(crate) fn is_gated(&self) -> bool {
        let gates = self.0.pointer("/spec/schedulingGates");
        let gates = gates.and_then(Value::as_array).into_iter().flatten();
        let mut names = gates.filter_map(|gate| gate.get("name")?.as_str());
        names.any(|name| name == names::scheduling_gate::CHAIN)
    }

    /// Whether a kubelet made it from a file, so that no webhook can change it.
    pub(crate) fn is_mirror(&self) -> bool {
        let is_marked = texts(self.0, "annotations").contains_key(MIRROR);
        is_marked && controller(self.0).is_some_and(|owner| owner.kind == "Node")
    }

    /// Whether it belongs to a tunnel, whose stamp is on its Deployment.
    pub(crate) fn is_of_tunnel(&self) -> bool {
        self.labels().contains_key(names::portal::label::EXPOSE)
    }

    /// Its controller, or the pod itself if it has none.
    pub(crate) fn owner(&self) -> Owner {
        controller(self.0).unwrap_or_else(|| Owner {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
        })
    }
}

/// The controller of an object.
pub(crate) fn controller(object: &Value) -> Option<Owner> {
    let controller = manifest::controller(object)?;
    let field = |name: &str| Some(kept(controller.get(name)?.as_str()?));
    Some(Owner {
        api_version: field("apiVersion")?,
        kind: field("kind")?,
        name: field("name")?,
        uid: field("uid")?,
    })
}

/// A text that is kept, with its end cut off if it is long. Then it is no name any more.
fn kept(text: &str) -> String {
    short(text, TEXT, "…").into_owned()
}
