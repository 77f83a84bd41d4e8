//! Targets in files: what the API server would answer if it had exactly these objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind, Selector, SelectorExt};
use podloom_engine::kind::ResourceScope;
use serde_json::{Value, json};

use super::scope;
use crate::checked::{CheckedTarget, KindReference, Selection};
use crate::read::{self, IfMissing, seen};
use crate::served::{ServedKind, group_version};
use crate::settings::CleanerSettings;
use crate::sight::{Found, Problem, SeenTarget, metadata};

/// The objects of some files, as an operator with these flags would see them.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) objects: &'a [Value],
    pub(super) settings: &'a CleanerSettings,
}

impl Files<'_> {
    /// Reads a target of a Cleaner in this namespace.
    ///
    /// # Errors
    ///
    /// If targets must not have its kind, if the selector cannot match anything, or if an object is missing that must be there.
    pub(super) fn target(
        &self,
        target: &CheckedTarget,
        namespace: &str,
        if_missing: IfMissing,
    ) -> Result<SeenTarget, Problem> {
        let of_kind = of_kind(self.objects, &target.kind);
        let kind = Arc::new(self.served(&target.kind, of_kind.first().copied()));
        if !read::allows(self.settings, &kind) {
            return Err(read::not_allowed(target, &kind));
        }
        let within = kind.namespace(namespace);
        let is_within =
            |object: &&Value| within.is_none_or(|own| metadata(object, "namespace") == own);
        let mut within = of_kind.into_iter().filter(is_within);
        let found = match &target.selection {
            Selection::One(name) => match within.find(|object| metadata(object, "name") == name) {
                Some(object) => Found::One(placed(object, &kind)),
                None if if_missing == IfMissing::Skip => Found::Missing(name.clone()),
                None => {
                    let place = kind.namespace(namespace);
                    let text = missing(self.objects, &target.kind, place, name);
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
    fn served(&self, wanted: &KindReference, object: Option<&Value>) -> ServedKind {
        let name = object.map_or(wanted.kind.as_str(), kind);
        let kind = GroupVersionKind::gvk(&wanted.group, &wanted.version, name);
        let resource = ApiResource::from_gvk(&kind);
        let (resource, scope) = scope::of(resource, self.objects, self.settings);
        ServedKind { resource, scope }
    }
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
