//! Which objects a manifest names, and which of them are deleted.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::order;
use crate::yaml::{self, ManifestError};

/// The objects of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartObjects {
    /// Those that are deleted, in this order.
    pub deleted: Vec<ChartObject>,
    /// Those that stay.
    pub kept: Vec<Kept>,
}

/// An object of a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChartObject {
    /// Its API group and version, as in manifests.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace: its own, or that of the release. A cluster-scoped object has one here too; only discovery knows its scope.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// An object that stays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    /// The object.
    pub object: ChartObject,
    /// Why it stays.
    pub because: KeptBecause,
}

/// Why an object stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeptBecause {
    /// It has the annotation `helm.sh/resource-policy`. Helm asks for the value `keep`, but deletes no object with another value
    /// either.
    Policy,
    /// It is a hook, which is only created when it runs.
    Hook,
    /// Its name was generated, and nobody knows which.
    Nameless,
}

/// What is read of a document.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Document {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<Metadata>,
    items: Option<Vec<Self>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    annotations: Option<Annotations>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "helm.sh/resource-policy", deserialize_with = "present")]
    has_policy: bool,
    #[serde(rename = "helm.sh/hook", deserialize_with = "present")]
    is_hook: bool,
}

/// Whatever the value is, even null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// Reads the manifest of a release that is in this namespace.
pub(crate) fn read(manifest: &str, namespace: &str) -> Result<ChartObjects, ManifestError> {
    let mut objects = ChartObjects::default();
    let mut found = Vec::new();
    for document in yaml::documents::<Document>(manifest)? {
        flatten(document, None, None, &mut found);
    }
    for (number, (document, because)) in found.into_iter().enumerate() {
        let object = object(document, namespace).ok_or(ManifestError::NoKind(number + 1))?;
        let nameless = object.name.is_empty().then_some(KeptBecause::Nameless);
        match because.or(nameless) {
            Some(because) => objects.kept.push(Kept { object, because }),
            None => objects.deleted.push(object),
        }
    }
    // A stable sort: objects of one kind stay in the order of the chart.
    objects
        .deleted
        .sort_by(|a, b| order::rank(&a.kind).cmp(&order::rank(&b.kind)));
    Ok(objects)
}

/// The kind of the items of a list, if they do not say their own.
type ItemKind<'a> = Option<(&'a str, &'a str)>;

/// Puts the items of lists in the place of the lists. What keeps a list keeps its items.
fn flatten(
    mut document: Document,
    of_list: ItemKind<'_>,
    kept: Option<KeptBecause>,
    found: &mut Vec<(Document, Option<KeptBecause>)>,
) {
    if let (None, None, Some((api_version, kind))) =
        (&document.api_version, &document.kind, of_list)
    {
        document.api_version = Some(api_version.to_owned());
        document.kind = Some(kind.to_owned());
    }
    let annotations = document.metadata.as_ref().and_then(|it| it.annotations);
    let annotations = annotations.unwrap_or_default();
    let own = match annotations {
        Annotations { is_hook: true, .. } => Some(KeptBecause::Hook),
        Annotations {
            has_policy: true, ..
        } => Some(KeptBecause::Policy),
        _ => None,
    };
    let kept = kept.or(own);
    let kind = document.kind.as_deref().unwrap_or_default();
    let (Some(item), Some(items)) = (kind.strip_suffix("List"), document.items.take()) else {
        found.push((document, kept));
        return;
    };
    let api_version = document.api_version.as_deref().unwrap_or_default();
    // A plain List has items of any kind.
    let of_list = Some((api_version, item)).filter(|_| !item.is_empty());
    for document in items {
        flatten(document, of_list, kept, found);
    }
}

/// The object of a document; none if it has no kind.
pub(crate) fn object(document: Document, namespace: &str) -> Option<ChartObject> {
    let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if !given(&document.api_version) || !given(&document.kind) {
        return None;
    }
    let metadata = document.metadata.unwrap_or_default();
    Some(ChartObject {
        api_version: document.api_version?,
        kind: document.kind?,
        namespace: metadata
            .namespace
            .filter(|own| !own.is_empty())
            .unwrap_or_else(|| namespace.to_owned()),
        name: metadata.name.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
