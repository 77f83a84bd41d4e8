//! A pod as its owner would create it. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cli::SubmitArguments;
use crate::corpus::conceal;
use crate::feed::FoundPod;

/// Stands where a controller writes something of its own, such as the hash of a template. A pod that has a name of its own gets another
/// one with this, since that one may be there.
const DRY_RUN: &str = "dry-run";
/// The number of a StatefulSet's pod. It must be a number, and none that is there.
const ORDINAL: u32 = 99_999;
/// The UID of an owner that is not there.
const UID: &str = "00000000-0000-0000-0000-000000000000";
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// A pod that is sent, where to, and as whom.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submission {
    pub(super) namespace: String,
    /// What it stands for, as `Deployment shop/web`.
    pub(super) name: String,
    /// Whom it is sent as; none for the user of the kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    pub(super) pod: Value,
}

/// Who creates the pods of a template: whose template it is, the apiVersion and kind of the pods' owner, and how
/// the account is called before `-controller`.
type Controller = [&'static str; 4];

const CONTROLLERS: [Controller; 7] = [
    ["CronJob", "batch/v1", "Job", "job"],
    ["DaemonSet", "apps/v1", "DaemonSet", "daemon-set"],
    ["Deployment", "apps/v1", "ReplicaSet", "replicaset"],
    ["Job", "batch/v1", "Job", "job"],
    ["ReplicaSet", "apps/v1", "ReplicaSet", "replicaset"],
    [
        "ReplicationController",
        "v1",
        "ReplicationController",
        "replication",
    ],
    ["StatefulSet", "apps/v1", "StatefulSet", "statefulset"],
];

impl Submission {
    /// The pod that the owner would create, as the arguments say.
    pub(super) fn of(found: FoundPod, arguments: &SubmitArguments) -> Self {
        let FoundPod {
            namespace,
            name,
            subject,
            ..
        } = found;
        let mut pod = subject.pod;
        conceal::annotations(&mut pod);
        if !arguments.keep_values {
            conceal::values(&mut pod);
        }
        let own = subject.request.name.as_str();
        let mut owner = subject.request.owner.splitn(3, '/');
        let (kind, owner) = (owner.next().unwrap_or_default(), owner.nth(1));
        let mut controllers = CONTROLLERS.into_iter();
        let controller = controllers.find(|[of, ..]| own.is_empty() && *of == kind);
        let mut spec = take(&mut pod, "spec");
        // An API server refuses them in a new pod.
        spec.remove("ephemeralContainers");
        let mut metadata = take(&mut pod, "metadata");
        metadata.remove("namespace");
        let owner = owner.filter(|name| !name.is_empty()).unwrap_or("unnamed");
        match controller {
            Some(controller) => create(controller, owner, &mut metadata, &mut spec),
            None if !own.is_empty() => {
                metadata.insert("name".to_owned(), beside(own).into());
            }
            None => {
                metadata.remove("name");
                let start = metadata.entry("generateName");
                start.or_insert_with(|| format!("{owner}-").into());
            }
        }
        pod["metadata"] = metadata.into();
        pod["spec"] = spec.into();
        let account = controller.filter(|_| arguments.as_controllers);
        let account =
            account.map(|[.., it]| format!("system:serviceaccount:kube-system:{it}-controller"));
        Self {
            namespace: arguments.into.clone().unwrap_or(namespace),
            name,
            user: account.or_else(|| arguments.user.clone()),
            pod,
        }
    }
}

fn take(pod: &mut Value, field: &str) -> Map<String, Value> {
    match pod.get_mut(field).map(Value::take) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Another name, for a pod that may be there.
fn beside(name: &str) -> String {
    let longest = LONGEST_NAME - DRY_RUN.len() - 1;
    let start = name.get(..name.floor_char_boundary(longest));
    let start = start.unwrap_or(name).trim_end_matches(['-', '.']);
    format!("{start}-{DRY_RUN}")
}

/// What a controller adds to a template, as far as a policy can depend on it.
fn create(
    [of, api_version, kind, _]: Controller,
    template: &str,
    metadata: &mut Map<String, Value>,
    spec: &mut Map<String, Value>,
) {
    let owner = match of == kind {
        true => template.to_owned(),
        false => format!("{template}-{DRY_RUN}"),
    };
    metadata.remove("name");
    metadata.remove("generateName");
    let pod_name = format!("{owner}-{ORDINAL}");
    match kind {
        "StatefulSet" => {
            add_claims(spec, &pod_name);
            metadata.insert("name".to_owned(), pod_name.clone().into());
        }
        _ => {
            metadata.insert("generateName".to_owned(), format!("{owner}-").into());
        }
    }
    // Without blockOwnerDeletion: that needs a right of its own.
    let reference = json!({ "apiVersion": api_version, "kind": kind, "name": owner, "uid": UID, "controller": true });
    metadata.insert("ownerReferences".to_owned(), json!([reference]));
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Value::Object(labels) = labels {
        for (key, value) in added_labels(of, &owner, &pod_name) {
            labels.insert(key.to_owned(), value.into());
        }
    }
}

fn added_labels(of: &str, owner: &str, pod: &str) -> Vec<(&'static str, String)> {
    let hash = || DRY_RUN.to_owned();
    match of {
        "Deployment" => vec![("pod-template-hash", hash())],
        "DaemonSet" => vec![
            ("controller-revision-hash", hash()),
            ("pod-template-generation", "1".to_owned()),
        ],
        "StatefulSet" => vec![
            ("apps.kubernetes.io/pod-index", ORDINAL.to_string()),
            ("controller-revision-hash", hash()),
            ("statefulset.kubernetes.io/pod-name", pod.to_owned()),
        ],
        "CronJob" | "Job" => vec![
            ("batch.kubernetes.io/controller-uid", UID.to_owned()),
            ("batch.kubernetes.io/job-name", owner.to_owned()),
            ("controller-uid", UID.to_owned()),
            ("job-name", owner.to_owned()),
        ],
        _ => Vec::new(),
    }
}

/// A StatefulSet's template mounts volumes for its claims, which only its controller adds.
fn add_claims(spec: &mut Map<String, Value>, pod: &str) {
    let list = |field: &str| {
        spec.get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let containers = list("containers").chain(list("initContainers"));
    let mounts = containers.flat_map(|container| {
        let lists = ["volumeMounts", "volumeDevices"].map(|field| container.get(field));
        lists
            .into_iter()
            .flatten()
            .filter_map(Value::as_array)
            .flatten()
    });
    fn name(it: &Value) -> Option<&str> {
        it.get("name").and_then(Value::as_str)
    }
    let there: BTreeSet<&str> = list("volumes").filter_map(name).collect();
    let missing: BTreeSet<String> = mounts
        .filter_map(name)
        .filter(|it| !there.contains(it))
        .map(str::to_owned)
        .collect();
    let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
    let claims = missing.into_iter().map(|name| {
        let claim = format!("{name}-{pod}");
        json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } })
    });
    if let Value::Array(volumes) = volumes {
        volumes.extend(claims);
    }
}

#[cfg(test)]
mod tests;
