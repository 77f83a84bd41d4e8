//! Which objects a manifest names, and which of them are deleted.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

/// How many documents a manifest may have.
const DOCUMENTS_MAX: usize = 10_000;
/// How many values a manifest may have.
const VALUES_MAX: usize = 500_000;
/// How many values the manifest of a hook may have: all of them are kept, which takes far more memory than their text. The API server takes
/// no object that has many more.
const HOOK_VALUES_MAX: usize = 50_000;
/// How many texts that look like numbers are found. The manifest is read again for each.
const QUOTED_MAX: usize = 64;
/// How many bytes are read again at most, all times together.
const REREAD_MAX: usize = 4 << 20;
/// How many values may come from aliases.
const ALIASED_MAX: usize = 100_000;
/// How deeply values may be nested.
const DEPTH_MAX: usize = 64;

/// Helm's order: what brings in requests or makes pods goes first, what others need goes last.
const ORDER: [&str; 31] = [
    "APIService",
    "Ingress",
    "IngressClass",
    "Service",
    "CronJob",
    "Job",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "DaemonSet",
    "RoleBinding",
    "Role",
    "ClusterRoleBinding",
    "ClusterRole",
    "CustomResourceDefinition",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "PodSecurityPolicy",
    "LimitRange",
    "ResourceQuota",
    "NetworkPolicy",
    "Namespace",
    "PriorityClass",
];

/// The objects of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartObjects {
    /// Those that are deleted, in this order.
    pub deleted: Vec<ChartObject>,
    /// Those that stay: they have the annotation `helm.sh/resource-policy`, whatever its value, as in Helm; or their name was generated,
    /// and nobody knows which. A hook is no object of the release.
    pub kept: Vec<ChartObject>,
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

/// Why a manifest cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is no YAML, exceeds a limit, or a field has another type than in Kubernetes.
    #[error("the manifest cannot be read: line {line}, column {column}")]
    Syntax {
        /// The line of the mistake, from 1; 0 if it is not known.
        line: u64,
        /// The column of the mistake, from 1; 0 if it is not known.
        column: u64,
    },
    /// A document has no apiVersion or no kind.
    #[error("object {0} of the manifest has no apiVersion or no kind")]
    NoKind(usize),
    /// The manifest of a hook has no object, or several.
    #[error("the manifest of the hook is not one object")]
    NoHookObject,
    /// The object of a hook has no name, or another kind or name than the hook.
    #[error("the manifest of the hook has another object than the hook says")]
    OtherHookObject,
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

/// What keeps an object.
#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
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
    for document in parse::<Document>(manifest, VALUES_MAX)? {
        flatten(document, None, Annotations::default(), &mut found);
    }
    for (number, (document, annotations)) in found.into_iter().enumerate() {
        let object = object(document, namespace).ok_or(ManifestError::NoKind(number + 1))?;
        match annotations.has_policy || object.name.is_empty() {
            // It is only created when it runs.
            _ if annotations.is_hook => {}
            true => objects.kept.push(object),
            false => objects.deleted.push(object),
        }
    }
    // A stable sort: objects of one kind stay in the order of the chart.
    objects
        .deleted
        .sort_by(|a, b| rank(&a.kind).cmp(&rank(&b.kind)));
    Ok(objects)
}

/// The kind of the items of a list, if they do not say their own.
type ItemKind<'a> = Option<(&'a str, &'a str)>;

/// Puts the items of lists in the place of the lists. What keeps a list keeps its items.
fn flatten(
    mut document: Document,
    of_list: ItemKind<'_>,
    kept: Annotations,
    found: &mut Vec<(Document, Annotations)>,
) {
    if let (None, None, Some((api_version, kind))) =
        (&document.api_version, &document.kind, of_list)
    {
        document.api_version = Some(api_version.to_owned());
        document.kind = Some(kind.to_owned());
    }
    let own = document.metadata.as_ref().and_then(|it| it.annotations);
    let kept = match kept == Annotations::default() {
        true => own.unwrap_or_default(),
        false => kept,
    };
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

/// Returns what to sort by: other kinds come last, by their names.
fn rank(kind: &str) -> (usize, &str) {
    match ORDER.iter().position(|known| *known == kind) {
        Some(place) => (place, ""),
        None => (ORDER.len(), kind),
    }
}

// YAML as charts render it: like Helm's own parser where charts depend on it, and with limits.

/// Reads all documents of a hook that are not empty.
pub(crate) fn hook_documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, ManifestError> {
    parse(text, HOOK_VALUES_MAX)
}

/// Reads all documents that are not empty, of at most so many values.
fn parse<T: DeserializeOwned>(text: &str, values: usize) -> Result<Vec<T>, ManifestError> {
    let mut text = Cow::Borrowed(text);
    let mut quoted = 0;
    loop {
        let error = match serde_saphyr::from_multiple_with_options(&text, options(values)) {
            Ok(documents) => return Ok(documents),
            Err(error) => error,
        };
        let may_again = quoted < QUOTED_MAX && text.len().saturating_mul(quoted + 1) <= REREAD_MAX;
        match may_again.then(|| with_quotes(&text, &error)).flatten() {
            Some(again) => text = Cow::Owned(again),
            None => {
                let at = error.location();
                return Err(ManifestError::Syntax {
                    line: at.map_or(0, |at| at.line()),
                    column: at.map_or(0, |at| at.column()),
                });
            }
        }
        quoted += 1;
    }
}

/// The text with quotes around a number that is too large for a float, such as the commit `83e2010`: for Helm and kubectl it is a text.
fn with_quotes(text: &str, error: &Error) -> Option<String> {
    let Error::NonFiniteFloat { value, location } = error.without_snippet() else {
        return None;
    };
    // Infinity has no digit.
    let is_written = value.contains(|it: char| it.is_ascii_digit());
    let (before, rest) = text.split_at_checked(location.span().byte_offset()?.try_into().ok()?)?;
    let after = rest.strip_prefix(value.as_str()).filter(|_| is_written)?;
    Some(format!("{before}'{value}'{after}"))
}

fn options(values: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: values,
            // Here the end of each list and map counts too, and two events for each document.
            max_events: 2 * values + 2 * DOCUMENTS_MAX,
            max_documents: DOCUMENTS_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED_MAX,
        },
        // Charts often write a label twice; Helm takes the last.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests;
