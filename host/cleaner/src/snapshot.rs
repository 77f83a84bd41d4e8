//! The targets as conditions see them; and as they were when all conditions were true, for the status and the CloudEvent: not too large.
//!
//! Both are without secrets. Whoever may create Cleaners need not be allowed to read Secrets, but the operator is, if it uninstalls
//! releases.

use std::io;

use podloom_api::TargetSnapshot;
use podloom_cel::Variables;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::discovery::ServedKind;
use crate::read::{Found, Problem, SeenTarget, metadata};

/// How many bytes of JSON the states of all targets may take together.
const BYTES_MAX: usize = 256 * 1024;

/// Returns the snapshots of the targets that were read, in their order.
///
/// If all states together are too large, each has only names and UIDs, as many as fit.
pub(super) fn of<'a>(targets: impl IntoIterator<Item = &'a SeenTarget>) -> Vec<TargetSnapshot> {
    let read: Vec<&SeenTarget> = targets
        .into_iter()
        .filter(|target| !matches!(target.found, Found::Named(_)))
        .collect();
    let whole: Vec<TargetSnapshot> = read
        .iter()
        .map(|target| {
            let is_secret = is_secret(&target.kind);
            let state = target.state().map(|state| redacted(state, is_secret));
            snapshot(target, state)
        })
        .collect();
    let size: usize = whole.iter().map(bytes).sum();
    match size <= BYTES_MAX {
        true => whole,
        false => identities(&read),
    }
}

fn snapshot(target: &SeenTarget, state: Option<Value>) -> TargetSnapshot {
    TargetSnapshot {
        name: target.name.clone(),
        delete: target.is_deleted,
        include_when_evaluating: target.is_evaluated,
        state,
        truncated: false,
    }
}

/// Snapshots with names and UIDs only.
fn identities(targets: &[&SeenTarget]) -> Vec<TargetSnapshot> {
    let mut left = BYTES_MAX;
    let mut take = |value: &Value| {
        // And what separates it from the next.
        let size = stored_bytes(value) + 1;
        let fits = size <= left;
        left = left.saturating_sub(if fits { size } else { left });
        fits
    };
    let of = |target: &&SeenTarget| {
        let state = match &target.found {
            Found::Named(_) | Found::Missing(_) => None,
            Found::One(object) => Some(identity(object)).filter(&mut take),
            Found::List(list) => {
                let items = target.objects().iter().map(identity);
                let items: Vec<Value> = items.take_while(&mut take).collect();
                let resource = &target.kind.resource;
                let kind = list["kind"].as_str().unwrap_or(&resource.kind);
                Some(json!({
                    "apiVersion": resource.api_version,
                    "kind": kind,
                    "items": items,
                }))
            }
        };
        TargetSnapshot {
            truncated: true,
            ..snapshot(target, state)
        }
    };
    targets.iter().map(of).collect()
}

fn identity(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": {
            "namespace": metadata(object, "namespace"),
            "name": metadata(object, "name"),
            "uid": metadata(object, "uid"),
        },
    })
}

fn bytes(snapshot: &TargetSnapshot) -> usize {
    snapshot.state.as_ref().map_or(0, stored_bytes)
}

/// Returns an object or a list without what nobody needs and what nobody should see.
fn redacted(state: &Value, is_secret: bool) -> Value {
    let Value::Object(fields) = state else {
        return state.clone();
    };
    let mut kept = Map::new();
    let is_list = fields.get("items").is_some_and(Value::is_array) && is_list_kind(fields);
    for (key, value) in fields {
        let value = match (key.as_str(), value) {
            ("data" | "stringData", _) if is_secret => continue,
            ("metadata", Value::Object(metadata)) => {
                Value::Object(redacted_metadata(metadata, is_secret))
            }
            ("items", Value::Array(items)) if is_list => {
                items.iter().map(|item| redacted(item, is_secret)).collect()
            }
            (_, value) => value.clone(),
        };
        kept.insert(key.clone(), value);
    }
    Value::Object(kept)
}

fn is_list_kind(fields: &Map<String, Value>) -> bool {
    let kind = fields.get("kind").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.ends_with("List"))
}

fn redacted_metadata(metadata: &Map<String, Value>, is_secret: bool) -> Map<String, Value> {
    let mut kept = metadata.clone();
    kept.remove("managedFields");
    if let Some(Value::Object(annotations)) = kept.get_mut("annotations") {
        annotations.retain(|key, _| key != LAST_APPLIED && !(is_secret && is_copy(key)));
    }
    kept
}

/// What `kubectl apply` writes: the whole object once more.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations with the whole object once more, as programs write them that apply manifests.
const COPIES: [&str; 4] = [
    LAST_APPLIED,
    "kapp.k14s.io/original",
    "objectset.rio.cattle.io/applied",
    "banzaicloud.com/last-applied",
];

/// Returns whether objects of a kind are Secrets.
pub(super) fn is_secret(kind: &ServedKind) -> bool {
    let resource = &kind.resource;
    resource.group.is_empty() && resource.kind.eq_ignore_ascii_case("Secret")
}

/// Returns whether a value of a Secret, or of a Secret in a list, is secret, by the fields that lead to it.
pub(super) fn is_hidden(path: &[&str]) -> bool {
    let path = match path {
        ["items", of_item @ ..] => of_item,
        path => path,
    };
    match path {
        ["data" | "stringData", _] => true,
        ["metadata", "annotations", annotation] => is_copy(annotation),
        _ => false,
    }
}

/// Returns whether an annotation has the whole object once more.
pub(super) fn is_copy(annotation: &str) -> bool {
    COPIES.contains(&annotation)
}

/// Returns the variables of the targets that conditions see. Of a Secret, they see no values.
///
/// # Errors
///
/// If an object is nested too deep.
pub(super) fn variables<'a>(
    targets: impl IntoIterator<Item = &'a SeenTarget>,
) -> Result<Variables, Problem> {
    let mut variables = Variables::default();
    let evaluated = targets.into_iter().filter(|target| target.is_evaluated);
    for target in evaluated {
        if let Some(state) = target.state() {
            let is_secret = is_secret(&target.kind);
            let hides = |path: &[&str]| is_secret && is_hidden(path);
            let inserted = variables.insert_without(&target.name, state, &hides);
            inserted.map_err(|error| Problem::lasting(&target.name, &error))?;
        }
    }
    Ok(variables)
}

/// Returns how many bytes the API server stores, at most. It writes some characters as six, such as `<`.
pub(super) fn stored_bytes(value: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    match serde_json::to_writer(&mut counted, value) {
        Ok(()) => counted.0,
        // What cannot be written takes no room.
        Err(_) => 0,
    }
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sizes = bytes.iter().map(|byte| match byte {
            b'<' | b'>' | b'&' => 6,
            // So two characters that end lines begin, with three bytes each.
            0xe2 => 4,
            _ => 1,
        });
        self.0 = self.0.saturating_add(sizes.sum());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
