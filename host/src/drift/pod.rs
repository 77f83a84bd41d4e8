//! What matters of a pod, of its owners, and of their stamps.

use std::collections::BTreeMap;

use jiff::Timestamp;
use podloom_api::names;
use podloom_mutation::texts;
use serde_json::{Map, Value};

/// The annotation of pods that a kubelet created from a file. Only these have a Node as their controller.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The longest text that is kept of an object: names of Kubernetes are shorter, and everyone may write longer ones elsewhere.
const TEXT: usize = 256;

/// What owns pods, and is rolled to replace them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// A pod of a list.
pub(super) struct Pod<'p>(pub(super) &'p Value);

impl Owner {
    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        let (own, _) = self.api_version.split_once('/').unwrap_or_default();
        own == group && self.kind == kind
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
    let field = |name: &str| Some(kept(controller.get(name)?.as_str()?));
    Some(Owner {
        api_version: field("apiVersion")?,
        kind: field("kind")?,
        name: field("name")?,
        uid: field("uid")?,
    })
}

/// A text that is kept, with its end cut off if it is long. Then it is no name any more.
pub(super) fn kept(text: &str) -> String {
    if text.len() <= TEXT {
        return text.to_owned();
    }
    let mut end = TEXT;
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// A field of the metadata; empty if there is none.
pub(super) fn text<'o>(object: &'o Value, field: &str) -> &'o str {
    let text = object
        .get("metadata")
        .and_then(|it| it.get(field)?.as_str());
    text.unwrap_or_default()
}
