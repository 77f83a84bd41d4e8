//! What matters of a pod, of its owners, and of their stamps.

use std::collections::BTreeMap;

use jiff::Timestamp;
use podloom_api::names;
use podloom_mutators::{CHAIN, MUTATIONS, MutationEntry};
use serde_json::{Map, Value};

/// The annotation of pods that a kubelet created from a file. Only these have a Node as their controller.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How much of a digest is kept: anyone may write the annotation.
const DIGEST: usize = 64;
/// The longest list of mutations that is read. The paths of a pod take up to 4 KiB of it.
const STAMP_BYTES: usize = 16 * 1024;

/// What owns pods, and is rolled to replace them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What a chain wrote on a pod, or on a Deployment whose pods passed it as a template.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    /// Of the chain.
    pub(super) digest: String,
    pub(super) entries: Vec<MutationEntry>,
    /// Whether the entries list all paths that were written.
    pub(super) is_whole: bool,
}

/// A pod of a list.
pub(super) struct Pod<'p>(pub(super) &'p Value);

impl Owner {
    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        let (own, _) = self.api_version.split_once('/').unwrap_or_default();
        own == group && self.kind == kind
    }
}

impl Stamp {
    /// The stamp in an object's annotations.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let annotations = object.pointer("/metadata/annotations")?;
        let text = |key: &str| annotations.get(key).and_then(Value::as_str);
        let digest = text(CHAIN)?.chars().take(DIGEST).collect();
        // Podloom's own stamps are far shorter; everybody who can write pods can write another one.
        let entries = text(MUTATIONS).filter(|text| text.len() <= STAMP_BYTES);
        let entries = entries.and_then(|text| serde_json::from_str(text).ok());
        let entries: Option<Vec<MutationEntry>> = entries;
        // Stamps of older versions of Podloom have no paths.
        let is_whole =
            |entry: &MutationEntry| !entry.cut && (entry.writes == 0 || !entry.paths.is_empty());
        Some(Self {
            digest,
            is_whole: entries.iter().flatten().all(is_whole) && entries.is_some(),
            entries: entries.unwrap_or_default(),
        })
    }
}

impl Pod<'_> {
    pub(super) fn namespace(&self) -> &str {
        text(self.0, "namespace")
    }

    pub(super) fn name(&self) -> &str {
        text(self.0, "name")
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        text(self.0, "creationTimestamp").parse().ok()
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        texts(self.0, "labels")
    }

    /// Whether it has run to its end, or is being deleted: it is replaced anyway, or never again.
    pub(super) fn is_over(&self) -> bool {
        let phase = self.0.pointer("/status/phase").and_then(Value::as_str);
        matches!(phase, Some("Succeeded" | "Failed"))
            || !text(self.0, "deletionTimestamp").is_empty()
    }

    /// Whether a kubelet made it from a file, so that no webhook can change it.
    pub(super) fn is_mirror(&self) -> bool {
        let is_marked = texts(self.0, "annotations").contains_key(MIRROR);
        is_marked && controller(self.0).is_some_and(|owner| owner.kind == "Node")
    }

    /// Whether it belongs to a tunnel, whose stamp is on its Deployment.
    pub(super) fn is_of_tunnel(&self) -> bool {
        self.labels().contains_key(names::portal::label::EXPOSE)
    }

    /// Its controller, or the pod itself if it has none.
    pub(super) fn owner(&self) -> Owner {
        controller(self.0).unwrap_or_else(|| Owner {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: self.name().to_owned(),
            uid: text(self.0, "uid").to_owned(),
        })
    }
}

/// The controller of an object.
pub(super) fn controller(object: &Value) -> Option<Owner> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let is_controller = |owner: &&Map<String, Value>| owner.get("controller") == Some(&true.into());
    let mut controllers = owners
        .iter()
        .filter_map(Value::as_object)
        .filter(is_controller);
    let controller = controllers.next()?;
    let field = |name: &str| Some(controller.get(name)?.as_str()?.to_owned());
    Some(Owner {
        api_version: field("apiVersion")?,
        kind: field("kind")?,
        name: field("name")?,
        uid: field("uid")?,
    })
}

/// A field of the metadata; empty if there is none.
pub(super) fn text<'o>(object: &'o Value, field: &str) -> &'o str {
    let text = object
        .get("metadata")
        .and_then(|it| it.get(field)?.as_str());
    text.unwrap_or_default()
}

/// A map in the metadata.
pub(super) fn texts(object: &Value, field: &str) -> BTreeMap<String, String> {
    let map = object
        .get("metadata")
        .and_then(|it| it.get(field)?.as_object());
    let fields = map.into_iter().flatten();
    let texts = fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}
