//! Targets in files: what the API server would answer if it had exactly these objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind, Selector, SelectorExt};
use podloom_engine::kind::ResourceScope;
use serde_json::{Value, json};

use crate::checked::{CheckedTarget, KindReference, Selection};
use crate::discovery::{ServedKind, group_version};
use crate::read;
use crate::read::{Found, Problem, SeenTarget, metadata, seen};
use crate::settings::{CleanerSettings, GroupResource};

/// The objects of some files, and the flags of the operator that would see them.
pub(super) type Files<'a> = (&'a [Value], &'a CleanerSettings);

/// Reads a target of a Cleaner in this namespace.
///
/// # Errors
///
/// If targets must not have its kind, if the selector cannot match anything, or if an object is missing that must be there.
pub(super) fn target(
    (objects, settings): Files<'_>,
    target: &CheckedTarget,
    namespace: &str,
) -> Result<SeenTarget, Problem> {
    let of_kind = of_kind(objects, &target.kind);
    let kind = Arc::new(served(
        (objects, settings),
        &target.kind,
        of_kind.first().copied(),
    ));
    if !read::allows(settings, &kind) {
        return Err(read::not_allowed(target, &kind));
    }
    let within = kind.namespace(namespace);
    let is_within = |object: &&Value| within.is_none_or(|own| metadata(object, "namespace") == own);
    let mut within = of_kind.into_iter().filter(is_within);
    let found = match &target.selection {
        Selection::One(name) => match within.find(|object| metadata(object, "name") == name) {
            Some(object) => Found::One(placed(object, &kind)),
            None if !target.is_evaluated => Found::Missing(name.clone()),
            None => {
                let place = kind.namespace(namespace);
                let text = missing(objects, &target.kind, place, name);
                return Err(Problem::lasting(&target.name, &text));
            }
        },
        Selection::Labelled(Err(error)) => return Err(Problem::lasting(&target.name, error)),
        Selection::Labelled(Ok(selector)) => {
            let items = within.filter(|object| matches(selector, object));
            let items = items.map(|object| placed(object, &kind));
            Found::List(kind.list(json!({}), items.collect()))
        }
    };
    Ok(seen(target, &kind, found))
}

/// The kind as an object writes it, or else as the target does.
fn served(
    (objects, settings): Files<'_>,
    wanted: &KindReference,
    object: Option<&Value>,
) -> ServedKind {
    let name = object.map_or(wanted.kind.as_str(), kind);
    let kind = GroupVersionKind::gvk(&wanted.group, &wanted.version, name);
    let resource = ApiResource::from_gvk(&kind);
    let (resource, scope) = scoped(resource, objects, settings);
    ServedKind { resource, scope }
}

/// Gives each object a UID that has none: files seldom do, and an object is deleted by its UID only.
pub(super) fn identified(mut targets: Vec<SeenTarget>) -> Vec<SeenTarget> {
    for target in &mut targets {
        match &mut target.found {
            Found::Named(_) | Found::Missing(_) => {}
            Found::One(object) => identify(object),
            Found::List(list) => {
                let items = list.get_mut("items").and_then(Value::as_array_mut);
                items.into_iter().flatten().for_each(identify);
            }
        }
    }
    targets
}

fn identify(object: &mut Value) {
    if metadata(object, "uid").is_empty() {
        // No two objects of a namespace have the same kind and name.
        let uid = ["apiVersion", "kind"].map(|field| object[field].as_str().unwrap_or_default());
        let uid = format!("{}/{}", uid.join("/"), metadata(object, "name"));
        object["metadata"]["uid"] = uid.into();
    }
}

/// An object as the API server has it: only one of a kind in namespaces has a namespace.
fn placed(object: &Value, kind: &ServedKind) -> Value {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let (ResourceScope::Cluster, Some(metadata)) = (kind.scope, metadata) {
        metadata.remove("namespace");
    }
    object
}

/// The objects of a kind: those whose kind is written exactly so, else those that differ only in the case of its letters.
fn of_kind<'a>(objects: &'a [Value], wanted: &KindReference) -> Vec<&'a Value> {
    let version = group_version(&wanted.group, &wanted.version);
    let of_version = objects.iter().filter(|it| it["apiVersion"] == *version);
    let of_kind: Vec<&Value> = of_version
        .filter(|it| kind(it).eq_ignore_ascii_case(&wanted.kind))
        .collect();
    let exact = of_kind.iter().copied().filter(|it| kind(it) == wanted.kind);
    let exact: Vec<&Value> = exact.collect();
    match exact.is_empty() {
        true => of_kind,
        false => exact,
    }
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

fn matches(selector: &Selector, object: &Value) -> bool {
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten();
    let labels: BTreeMap<String, String> = labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    selector.matches(&labels)
}

/// What is missing, and where to get it. There is no namespace for a cluster-scoped kind.
fn missing(
    objects: &[Value],
    wanted: &KindReference,
    namespace: Option<&str>,
    name: &str,
) -> String {
    let KindReference {
        group,
        version,
        kind,
    } = wanted;
    let written = |object: &&Value| {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let found = api_version.split_once('/').unwrap_or(("", api_version)).0;
        found == group
            && self::kind(object).eq_ignore_ascii_case(kind)
            && metadata(object, "name") == name
    };
    let within = |namespace: Option<&str>, before: &str| {
        namespace.map_or_else(String::new, |it| format!("{before}{it}"))
    };
    let place = format!(
        "the files have no {kind} {name} of {}{}",
        group_version(group, version),
        within(namespace, " in the namespace ")
    );
    if let Some(other) = objects.iter().find(written) {
        let api_version = other["apiVersion"].as_str().unwrap_or_default();
        let own = namespace.map(|_| metadata(other, "namespace"));
        let own = within(own, " in the namespace ");
        return format!("{place}, only one of {api_version}{own}");
    }
    let resource = match group.as_str() {
        "" => kind.to_ascii_lowercase(),
        group => format!("{}.{group}", kind.to_ascii_lowercase()),
    };
    format!(
        "{place}; add a file with it, such as what this prints: kubectl get {resource} {name}{} -o yaml",
        within(namespace, " --namespace ")
    )
}

/// The kinds of Kubernetes that are in no namespace, by their groups.
const CLUSTER_SCOPED: [(&str, &[&str]); 13] = [
    ("", &["Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    (
        "certificates.k8s.io",
        &["CertificateSigningRequest", "ClusterTrustBundle"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "networking.k8s.io",
        &["IngressClass", "IPAddress", "ServiceCIDR"],
    ),
    ("node.k8s.io", &["RuntimeClass"]),
    (
        "rbac.authorization.k8s.io",
        &["ClusterRole", "ClusterRoleBinding"],
    ),
    (
        "resource.k8s.io",
        &["DeviceClass", "DeviceTaintRule", "ResourceSlice"],
    ),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
];

/// What the files and the flags say of a kind: its exact name and its plural, and whether its objects are in namespaces.
///
/// A CustomResourceDefinition among the files says it of its kind, and a flag of the operator of what it names. All kinds that nobody
/// names are taken to be in namespaces, as most are.
fn scoped(
    mut resource: ApiResource,
    objects: &[Value],
    settings: &CleanerSettings,
) -> (ApiResource, ResourceScope) {
    if let Some(spec) = objects.iter().find_map(|it| definition(it, &resource)) {
        let name = |field: &str| spec["names"][field].as_str().map(str::to_owned);
        resource.kind = name("kind").unwrap_or(resource.kind);
        resource.plural = name("plural").unwrap_or(resource.plural);
        let is_wide = spec["scope"] == "Cluster";
        return (resource, scope(is_wide));
    }
    let own = CLUSTER_SCOPED
        .iter()
        .filter(|(group, _)| *group == resource.group);
    let mut own = own.flat_map(|(_, kinds)| kinds.iter());
    if let Some(kind) = own.find(|kind| kind.eq_ignore_ascii_case(&resource.kind)) {
        resource.kind = (*kind).to_owned();
        return (resource, ResourceScope::Cluster);
    }
    let named = GroupResource {
        plural: resource.plural.clone(),
        group: resource.group.clone(),
    };
    let is_wide = settings.cluster_scoped.contains(&named);
    (resource, scope(is_wide))
}

const fn scope(is_wide: bool) -> ResourceScope {
    match is_wide {
        true => ResourceScope::Cluster,
        false => ResourceScope::Namespaced,
    }
}

/// The spec of the CustomResourceDefinition of a kind, if an object is that.
fn definition<'a>(object: &'a Value, of: &ApiResource) -> Option<&'a Value> {
    let spec = &object["spec"];
    let kind = spec["names"]["kind"].as_str()?;
    let is_it = object["kind"] == "CustomResourceDefinition"
        && spec["group"] == *of.group
        && kind.eq_ignore_ascii_case(&of.kind);
    is_it.then_some(spec)
}
