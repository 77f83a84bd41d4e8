//! How render treats an object, by its apiVersion and kind.

use std::borrow::Borrow;
use std::sync::Arc;

use podloom_api::{InfrastructureKind, SelenosisApi};
use podloom_mutation::selected_labels;
use serde_json::{Map, Value, json};

use super::document::{self, Document, Step};

/// The kind of a document, as far as render distinguishes kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// Its pod is printed instead of it.
    Browser,
    /// Read, not printed.
    BrowserConfig,
    /// The Deployment of its tunnel is printed instead of it.
    PortalExpose,
    /// Read, not printed.
    TunnelClass,
    /// Read, not printed.
    Namespace,
    /// Printed after the chain.
    Pod,
    /// Printed after its pod template went through the chain.
    Workload(Template),
    /// The same for all pod templates that the user named for this kind; at least one.
    Named(Vec<Template>),
    /// Checked against its schema, and printed unchanged.
    Infrastructure(InfrastructureKind),
    /// Checked against its schema, and printed unchanged.
    Cleaner,
    /// Checked against its schema, and printed unchanged. It lets pods pass.
    ChainException,
    /// Printed unchanged.
    Other,
}

/// The pod template of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The steps from the object to the template.
    pub path: Vec<Step>,
    /// The keys of the labels by which the workload finds its pods.
    pub selector: Arc<[String]>,
}

impl Template {
    fn of(workload: &Value, (api_version, kind): (&str, &str), path: Vec<Step>) -> Self {
        Self {
            selector: selected(workload, api_version, kind, &path),
            path,
        }
    }
}

/// Kubernetes' own workloads and the paths of their templates. Other workloads are recognized by their shape.
const WORKLOADS: [(&str, &str, &[&str]); 8] = [
    ("apps/v1", "DaemonSet", &["spec", "template"]),
    ("apps/v1", "Deployment", &["spec", "template"]),
    ("apps/v1", "ReplicaSet", &["spec", "template"]),
    ("apps/v1", "StatefulSet", &["spec", "template"]),
    (
        "batch/v1",
        "CronJob",
        &["spec", "jobTemplate", "spec", "template"],
    ),
    ("batch/v1", "Job", &["spec", "template"]),
    ("v1", "PodTemplate", &["template"]),
    ("v1", "ReplicationController", &["spec", "template"]),
];

/// The apiVersion of PortalExposes and TunnelClasses.
const PORTAL: &str = "portal.gosuda.org/v1alpha1";

/// The apiVersion of Clusters, and of what they run on.
pub(super) const INFRASTRUCTURE: &str = "infrastructure.podloom.dev/v1alpha1";

/// The apiVersion of Cleaners.
pub(super) const CLEANER: &str = "cleaner.vtex.dev/v1alpha";

/// The apiVersion of ChainExceptions.
const CHAIN: &str = "chain.podloom.dev/v1alpha1";

/// Returns the kind of a document.
pub fn kind(document: &Document) -> DocumentKind {
    let api_version = document.api_version.as_str();
    match SelenosisApi::recognize(api_version, &document.kind) {
        Some((_, podloom_api::SelenosisKind::Browser)) => return DocumentKind::Browser,
        Some((_, podloom_api::SelenosisKind::BrowserConfig)) => return DocumentKind::BrowserConfig,
        None => {}
    }
    let name = (api_version, document.kind.as_str());
    match name {
        ("v1", "Pod") => return DocumentKind::Pod,
        ("v1", "Namespace") => return DocumentKind::Namespace,
        (PORTAL, "PortalExpose") => return DocumentKind::PortalExpose,
        (PORTAL, "TunnelClass") => return DocumentKind::TunnelClass,
        (CLEANER, "Cleaner") => return DocumentKind::Cleaner,
        (CHAIN, "ChainException") => return DocumentKind::ChainException,
        (INFRASTRUCTURE, name) => {
            if let Some(kind) = infrastructure_kind(name) {
                return DocumentKind::Infrastructure(kind);
            }
        }
        _ => {}
    }
    if let Some(named) = &document.named {
        let templates = named_templates(&document.value, name, named.iter());
        return if templates.is_empty() {
            DocumentKind::Other
        } else {
            DocumentKind::Named(templates)
        };
    }
    let template = by_shape(&document.value, name);
    template.map_or(DocumentKind::Other, DocumentKind::Workload)
}

/// The pod templates of an object: those that are named for its kind, else the one that it has as one of Kubernetes' own workloads, or by
/// its shape.
pub fn templates(
    api_version: &str,
    kind: &str,
    object: &Value,
    named: &[NamedTemplate],
) -> Vec<Template> {
    let name = match group(api_version) {
        "" => kind.to_owned(),
        group => format!("{group}/{kind}"),
    };
    let mine: Vec<_> = named.iter().filter(|it| it.kind == name).collect();
    if mine.is_empty() {
        return by_shape(object, (api_version, kind)).into_iter().collect();
    }
    let pointers = mine.into_iter().filter_map(|it| it.pointer.as_ref());
    named_templates(object, (api_version, kind), pointers)
}

fn named_templates<'n>(
    object: &Value,
    name: (&str, &str),
    pointers: impl Iterator<Item = &'n String>,
) -> Vec<Template> {
    let mut paths: Vec<Vec<Step>> = pointers
        .flat_map(|pointer| document::expand(object, pointer))
        .collect();
    // Two pointers can name the same template.
    paths.sort();
    paths.dedup();
    // A template before those inside it: what the chain makes of it is written over them.
    paths.sort_by_key(Vec::len);
    let paths = paths.into_iter();
    paths.map(|path| Template::of(object, name, path)).collect()
}

fn by_shape(object: &Value, (api_version, kind): (&str, &str)) -> Option<Template> {
    workload(api_version, kind, object).or_else(|| {
        let spec = descend(object, &["spec", "template", "spec"])?;
        spec.get("containers")?.as_array()?;
        Some(template(object, (api_version, kind), &["spec", "template"]))
    })
}

/// The pod template of one of Kubernetes' own workloads.
pub fn workload(api_version: &str, kind: &str, object: &Value) -> Option<Template> {
    let mut workloads = WORKLOADS.into_iter();
    let known = workloads.find(|(version, name, _)| *version == api_version && *name == kind);
    known.map(|(_, _, path)| template(object, (api_version, kind), path))
}

fn template(workload: &Value, name: (&str, &str), path: &[&str]) -> Template {
    let path = path.iter().map(|field| Step::from(*field)).collect();
    Template::of(workload, name, path)
}

fn infrastructure_kind(name: &str) -> Option<InfrastructureKind> {
    let mut kinds = InfrastructureKind::ALL.into_iter();
    kinds.find(|kind| kind.name() == name)
}

/// Whether an object is in the group of Clusters, whatever its version and kind.
pub fn is_infrastructure(document: &Document) -> bool {
    group(&document.api_version) == group(INFRASTRUCTURE)
}

/// Whether an object is in the group of Cleaners, whatever its version and kind.
pub fn is_cleaner(document: &Document) -> bool {
    group(&document.api_version) == group(CLEANER)
}

/// The group of an object and its kind, as `apps/Deployment`; the core group has no name.
pub(super) fn group_and_kind(document: &Document) -> String {
    match document.api_version.split_once('/') {
        Some((group, _)) => format!("{group}/{}", document.kind),
        None => document.kind.clone(),
    }
}

/// The apiVersion and kind that render knows, if a document has others only by their version, or by upper and lower case.
pub(super) fn meant(document: &Document) -> Option<(&'static str, String)> {
    let group = group(&document.api_version);
    let candidates = known_kinds().flat_map(|(version, kind)| {
        let list = format!("{kind}List");
        [(version, kind.to_owned()), (version, list)]
    });
    candidates
        .filter(|(version, kind)| {
            self::group(version) == group && kind.eq_ignore_ascii_case(&document.kind)
        })
        .find(|(version, kind)| *version != document.api_version || *kind != document.kind)
}

/// Whether render knows a kind, written as `apps/Deployment`.
pub(super) fn is_known(group_and_kind: &str) -> bool {
    let (wanted, name) = group_and_kind
        .rsplit_once('/')
        .unwrap_or(("", group_and_kind));
    known_kinds().any(|(version, kind)| group(version) == wanted && kind == name)
        || wanted == "selenosis.io"
        || wanted.ends_with(".selenosis.io")
}

/// The versions and names of the kinds that render knows, those of Selenosis excepted.
fn known_kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let workloads = WORKLOADS
        .into_iter()
        .map(|(version, kind, _)| (version, kind));
    let others = [
        ("v1", "List"),
        ("v1", "Namespace"),
        ("v1", "Pod"),
        (PORTAL, "PortalExpose"),
        (PORTAL, "TunnelClass"),
        (CLEANER, "Cleaner"),
        (CHAIN, "ChainException"),
    ];
    let infrastructure = InfrastructureKind::ALL
        .into_iter()
        .map(|kind| (INFRASTRUCTURE, kind.name()));
    others.into_iter().chain(workloads).chain(infrastructure)
}

/// The API group of an apiVersion; empty for the core group.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The value at a path of fields.
pub(crate) fn descend<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, field| value.get(field))
}

/// The keys of the labels by which a workload finds the pods of this template.
fn selected(workload: &Value, api_version: &str, kind: &str, path: &[Step]) -> Arc<[String]> {
    let beside = path.split_last().map_or(&[][..], |(_, above)| above);
    let field = |fields: &[&str]| descend(document::get(workload, beside)?, fields);
    let selector = match kind {
        // The API server's default.
        "ReplicationController" if api_version == "v1" => field(&["selector"])
            .filter(|selector| selector.as_object().is_some_and(|it| !it.is_empty()))
            .or_else(|| field(&["template", "metadata", "labels"])),
        _ => field(&["selector"]),
    };
    selected_labels(group(api_version), kind, selector)
}

// Pod templates in kinds that render does not know, as `--pod-template GROUP/KIND=/path` names them.

/// Where a kind has pod templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTemplate {
    /// The group and the kind, as `keda.sh/ScaledJob`; the core group has no name.
    kind: String,
    /// A JSON pointer in which `*` stands for every element of a list. None if the kind has no pod template.
    pointer: Option<String>,
}

impl NamedTemplate {
    /// Reads the value of the option.
    ///
    /// # Errors
    ///
    /// A sentence that says what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form =
            "write GROUP/KIND=/path, for example keda.sh/ScaledJob=/spec/jobTargetRef/template";
        let (kind, pointer) = text.split_once('=').ok_or(form)?;
        let name = kind.rsplit('/').next().unwrap_or_default();
        if name.is_empty() || kind.starts_with('/') || kind.matches('/').count() > 1 {
            return Err(form.to_owned());
        }
        if !name.starts_with(|first: char| first.is_ascii_uppercase()) {
            return Err(format!("a kind starts with an upper-case letter; {form}"));
        }
        if is_known(kind) {
            return Err(format!("podloom render knows the kind {kind} already"));
        }
        let is_pointer = pointer.starts_with('/') && !pointer.split('/').skip(1).any(str::is_empty);
        if !pointer.is_empty() && !is_pointer {
            return Err(format!(
                "the path starts with a slash and has no empty part; {form}"
            ));
        }
        if pointer.contains('[') {
            return Err(
                "use * for every element of a list: single elements cannot be named".to_owned(),
            );
        }
        Ok(Self {
            kind: kind.to_owned(),
            pointer: Some(pointer.to_owned()).filter(|pointer| !pointer.is_empty()),
        })
    }
}

/// Records in each document what is named for its kind.
pub fn apply(documents: &mut [Document], named: &[NamedTemplate]) {
    for document in documents {
        let kind = group_and_kind(document);
        let mine: Vec<&NamedTemplate> = named.iter().filter(|named| named.kind == kind).collect();
        if !mine.is_empty() {
            let pointers = mine.into_iter().filter_map(|named| named.pointer.clone());
            document.named = Some(pointers.collect());
        }
    }
}

// Objects that are held in little memory until they are needed.

/// The metadata that an outline has.
const NAMED: [&str; 3] = ["name", "generateName", "namespace"];

/// A document whose object is kept as text, unless it is of one of our kinds. The positions of its fields are forgotten, so it is for
/// objects that have no mistakes.
pub struct Outlined {
    /// The document. If the object is kept as text, it has nothing but the object's name.
    outline: Document,
    /// The object as JSON.
    text: Option<Box<str>>,
}

impl Outlined {
    /// Returns the outline of a document.
    pub fn of(mut document: Document) -> Self {
        let text = match kind(&document) {
            DocumentKind::Pod | DocumentKind::Workload(_) | DocumentKind::Named(_) => {
                Some(document.value.to_string().into_boxed_str())
            }
            // Nothing more is asked about it.
            DocumentKind::Other => None,
            _ => {
                return Self {
                    outline: document,
                    text: None,
                };
            }
        };
        document.value = name_of(&document.value);
        document.written = None;
        document.spans.children.clear();
        document.source.text = Arc::from("");
        Self {
            outline: document,
            text,
        }
    }

    /// The document with its object.
    pub fn unfold(self) -> Document {
        let Self { mut outline, text } = self;
        if let Some(text) = text {
            // It is our own text.
            outline.value = serde_json::from_str(&text).unwrap_or_default();
        }
        outline
    }
}

impl Borrow<Document> for Outlined {
    fn borrow(&self) -> &Document {
        &self.outline
    }
}

fn name_of(object: &Value) -> Value {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let fields = metadata.into_iter().flatten();
    let named = fields.filter(|(field, _)| NAMED.contains(&field.as_str()));
    let named: Map<String, Value> = named
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    json!({ "metadata": named })
}

#[cfg(test)]
mod tests;
