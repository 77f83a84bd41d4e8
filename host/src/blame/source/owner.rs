//! The template of what owns a pod.

use kube::Client;
use serde_json::Value;

use super::{Origin, Unread, read};
use crate::error::CommandError;
use crate::manifest;
use crate::render::Namespaces;
use crate::render::pod::subject_of;

/// The kinds whose pods are made of their template.
const OWNERS: [(&str, &str, &str); 5] = [
    ("apps/v1", "DaemonSet", "daemonsets"),
    ("apps/v1", "ReplicaSet", "replicasets"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("batch/v1", "Job", "jobs"),
    ("v1", "ReplicationController", "replicationcontrollers"),
];

/// The label of pods that are made of a ControllerRevision.
const REVISION: &str = "controller-revision-hash";

/// What owns a pod.
struct Owner<'p> {
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    name: &'p str,
    uid: &'p str,
}

/// Why the template is not known.
enum Unknown {
    Because(String),
    Failed(CommandError),
}

/// The template of what owns the pod, as it was when the pod was made; or why it is not known.
pub(super) async fn template_of(
    client: &Client,
    pod: &Value,
    namespace: &str,
) -> Result<Result<Origin, String>, CommandError> {
    match find(client, pod, namespace).await {
        Ok(origin) => Ok(Ok(origin)),
        Err(Unknown::Because(why)) => Ok(Err(why)),
        Err(Unknown::Failed(error)) => Err(error),
    }
}

async fn find(client: &Client, pod: &Value, namespace: &str) -> Result<Origin, Unknown> {
    let owner = owner(pod).map_err(Unknown::Because)?;
    let (version, name) = (owner.api_version, owner.name);
    let title = format!("{} {namespace}/{name}", owner.kind);
    let object = read(client, version, owner.plural, Some(namespace), name).await;
    let mut object = object.map_err(|unread| Unknown::of(unread, &title))?;
    if object.pointer("/metadata/uid").and_then(Value::as_str) != Some(owner.uid) {
        let why = format!("{title} was deleted and created again since the pod was made");
        return Err(Unknown::Because(why));
    }
    if let Some(name) = revision(pod, &owner) {
        let what = format!("ControllerRevision {namespace}/{name}");
        let revision = read(
            client,
            "apps/v1",
            "controllerrevisions",
            Some(namespace),
            &name,
        )
        .await;
        let mut revision = revision.map_err(|unread| Unknown::of(unread, &what))?;
        let template = revision.pointer_mut("/data/spec/template").map(Value::take);
        let spec = object.get_mut("spec").and_then(Value::as_object_mut);
        if let (Some(spec), Some(template)) = (spec, template) {
            spec.insert("template".to_owned(), template);
        }
    }
    let template = manifest::workload(version, owner.kind, &object);
    let namespaces = Namespaces::default();
    Ok(Origin {
        subject: subject_of(&object, template.as_ref(), &namespaces, namespace),
        title,
    })
}

impl Unknown {
    fn of(unread: Unread, what: &str) -> Self {
        match unread {
            Unread::NotThere => Self::Because(format!("{what} is gone")),
            Unread::Forbidden(message) => {
                Self::Because(format!("you may not read {what}: {message}"))
            }
            failed @ Unread::Failed(_) => Self::Failed(failed.into_error(what)),
        }
    }
}

/// What controls a pod, if it is made of its template.
fn owner(pod: &Value) -> Result<Owner<'_>, String> {
    let owners = pod.pointer("/metadata/ownerReferences");
    let owners = owners.and_then(Value::as_array).into_iter().flatten();
    let mut owners = owners.filter(|owner| owner.get("controller") == Some(&true.into()));
    let Some(owner) = owners.next() else {
        return Err(
            "nobody owns this pod, so it is not known how it was submitted: give its manifest as --template"
                .to_owned(),
        );
    };
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let mut known = OWNERS.into_iter();
    let Some((api_version, kind, plural)) =
        known.find(|(version, name, _)| *version == api_version && *name == kind)
    else {
        return Err(format!(
            "its owner is a {kind} of {api_version}, whose pod template is not known: give the pod as it was submitted as --template"
        ));
    };
    Ok(Owner {
        api_version,
        kind,
        plural,
        name: text("name"),
        uid: text("uid"),
    })
}

/// The ControllerRevision that holds the template of which the pod was made: that of its owner may be another one now.
fn revision(pod: &Value, owner: &Owner<'_>) -> Option<String> {
    let label = pod.pointer("/metadata/labels")?.get(REVISION)?.as_str()?;
    match owner.kind {
        "StatefulSet" => Some(label.to_owned()),
        "DaemonSet" => Some(format!("{}-{label}", owner.name)),
        _ => None,
    }
}
