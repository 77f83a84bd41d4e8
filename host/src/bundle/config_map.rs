//! What ConfigMaps hold, and what kubectl makes of them.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use podloom_api::names::annotation::LAST_APPLIED;
use serde_json::{Value, json};

use super::{File, Shipment};
use crate::output;

/// What the API server lets a ConfigMap hold: all values together, decoded.
/// Such an object stays below the 1.5 MiB that etcd takes by default, since binary data is not encoded there.
pub(crate) const MAX_BYTES: usize = 1_048_576;

/// What the API server lets an object have in annotations.
pub(super) const MAX_ANNOTATIONS: usize = 262_144;

/// Lays files into as many ConfigMaps as it takes, each file into the first that has room for it.
///
/// A file that no ConfigMap can hold is given back.
pub(super) fn distribute(shipment: &Shipment) -> Result<Vec<Vec<&File>>, &File> {
    let mut maps: Vec<(usize, Vec<&File>)> = Vec::new();
    for file in shipment.files() {
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

/// The ConfigMap of some files: what is text stays legible.
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

/// A ConfigMap as YAML, what people read first.
pub(super) fn yaml(object: &Value) -> anyhow::Result<String> {
    ["apiVersion", "kind", "metadata", "data", "binaryData"]
        .into_iter()
        .filter_map(|key| Some(output::yaml(&json!({ key: object.get(key)? }))))
        .collect()
}

/// The bytes of the annotation in which `kubectl apply` would keep a copy of an object.
pub(super) fn annotation_bytes(object: &Value) -> usize {
    let mut copy = object.clone();
    if let Some(Value::Object(metadata)) = copy.get_mut("metadata") {
        metadata.insert("annotations".to_owned(), json!({}));
    }
    let text = copy.to_string();
    // Go writes these so that its JSON can stand in HTML.
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
