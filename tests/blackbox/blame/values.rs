//! The values of a pod by their paths, found without the code under test.

use std::collections::BTreeMap;

use serde_json::Value;

/// What may be different in each pod, whatever chain it passes. The hash of a template changes if a ReplicaSet of that name is still
/// there.
const OF_ONE_POD: [&str; 10] = [
    "/metadata/creationTimestamp",
    "/metadata/generateName",
    "/metadata/labels/pod-template-hash",
    "/metadata/name",
    "/metadata/ownerReferences/",
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/uid",
    "/spec/nodeName",
    "/status/",
];

/// The merge keys of a pod's lists.
const KEYS: [(&str, &str); 9] = [
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("hostIPs", "ip"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("podIPs", "ip"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// Whether a path has another value in each pod.
pub(super) fn is_of_one_pod(path: &str) -> bool {
    OF_ONE_POD.iter().any(|start| path.starts_with(start))
}

/// All values that are no objects or lists, or empty ones; without managedFields and the stamp.
pub(super) fn values(pod: &Value) -> BTreeMap<String, Value> {
    let mut pod = pod.clone();
    let metadata = pod["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    let annotations = metadata["annotations"].as_object_mut().unwrap();
    annotations.retain(|key, _| !key.starts_with("podloom.dev/"));
    let mut values = BTreeMap::new();
    add(&mut values, "", "", &pod);
    values
}

fn add(values: &mut BTreeMap<String, Value>, path: &str, name: &str, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let path = format!("{path}/{}", escaped(key));
                add(values, &path, key, value);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            let key = KEYS.iter().find(|(list, _)| *list == name);
            for (index, element) in elements.iter().enumerate() {
                let segment = match key {
                    Some((_, key)) => {
                        format!("[{key}={}]", escaped(element[key].as_str().unwrap()))
                    }
                    None => index.to_string(),
                };
                add(values, &format!("{path}/{segment}"), "", element);
            }
        }
        _ => {
            values.insert(path.to_owned(), value.clone());
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('~', "~0").replace('/', "~1")
}
