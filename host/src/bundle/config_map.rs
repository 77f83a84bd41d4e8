//! ConfigMaps: their size limits, and how kubectl stores them.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use podloom_api::names::annotation::LAST_APPLIED;
use serde_json::{Value, json};

use super::{File, PackedBundle};
use crate::output;

/// The API server's limit for all values of a ConfigMap together, decoded. Binary data is stored without base64, so such a ConfigMap
/// also fits into etcd's default limit of 1.5 MiB.
pub(crate) const MAX_BYTES: usize = 1_048_576;

/// The API server's limit for all annotations of an object together.
pub(super) const MAX_ANNOTATIONS: usize = 262_144;

/// Distributes files over as few ConfigMaps as first-fit finds.
///
/// # Errors
///
/// Returns a file that is too large for any ConfigMap.
pub(super) fn distribute(packed: &PackedBundle) -> Result<Vec<Vec<&File>>, &File> {
    let mut maps: Vec<(usize, Vec<&File>)> = Vec::new();
    for file in packed.files() {
        let bytes = file.bytes.len();
        if bytes > MAX_BYTES {
            return Err(file);
        }
        let roomy = maps.iter_mut().find(|(used, _)| used + bytes <= MAX_BYTES);
        match roomy {
            Some((used, held)) => {
                *used += bytes;
                held.push(file);
            }
            None => maps.push((bytes, vec![file])),
        }
    }
    Ok(maps.into_iter().map(|(_, held)| held).collect())
}

/// A ConfigMap with these files. Text goes into `data`, so that it stays readable.
pub(super) fn object(name: &str, namespace: &str, files: &[&File]) -> anyhow::Result<Value> {
    let (mut data, mut binary_data) = (BTreeMap::new(), BTreeMap::new());
    for file in files {
        match std::str::from_utf8(&file.bytes) {
            Ok(text) => {
                data.insert(file.name.clone(), text.to_owned());
            }
            Err(_) => {
                binary_data.insert(file.name.clone(), ByteString(file.bytes.clone()));
            }
        }
    }
    let labels = [("app.kubernetes.io/name".to_owned(), "podloom".to_owned())];
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        data: (!data.is_empty()).then_some(data),
        binary_data: (!binary_data.is_empty()).then_some(binary_data),
        immutable: None,
    };
    serde_json::to_value(map).context("could not write a ConfigMap")
}

/// A ConfigMap as YAML, with the parts that people read first.
pub(super) fn yaml(object: &Value) -> anyhow::Result<String> {
    ["apiVersion", "kind", "metadata", "data", "binaryData"]
        .into_iter()
        .filter_map(|key| Some(output::yaml(&json!({ key: object.get(key)? }))))
        .collect()
}

/// The size of the annotation in which `kubectl apply` would store a copy of the object.
pub(super) fn annotation_bytes(object: &Value) -> usize {
    let mut copy = object.clone();
    if let Some(Value::Object(metadata)) = copy.get_mut("metadata") {
        metadata.insert("annotations".to_owned(), json!({}));
    }
    let text = copy.to_string();
    // Go escapes these characters, so that its JSON is safe in HTML.
    let escaped: usize = text
        .chars()
        .map(|char| match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => "\\u0000".len() - char.len_utf8(),
            _ => 0,
        })
        .sum();
    LAST_APPLIED.len() + text.len() + escaped + "\n".len()
}

#[cfg(test)]
mod tests;
