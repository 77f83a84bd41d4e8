//! Reads the pod, and the template that it was made of.

use std::mem;

use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use podloom_mutation::NamespaceMetadata;
use serde_json::Value;

use crate::cli::BlameArguments;
use crate::error::CommandError;
use crate::lists::Connection;
use crate::manifest::{Document, DocumentKind};
use crate::render::Namespaces;
use crate::render::pod::{Subject, subject_of};
use crate::subjects::{Warnings, subjects};
use crate::{lists, load, manifest};

/// What the pod was before it passed the chain.
pub(super) struct Origin {
    /// As `ReplicaSet shop/web-5d9`.
    pub(super) title: String,
    pub(super) subject: Subject,
}

/// Why an object was not read.
enum Unread {
    NotThere,
    /// Holds what the API server says.
    Forbidden(String),
    Failed(kube::Error),
}

/// The pod, and where it came from, or why that is not known.
pub(super) async fn read(
    arguments: &BlameArguments,
) -> Result<(Value, Result<Origin, String>), CommandError> {
    match &arguments.file {
        Some(file) => of_file(file, arguments),
        None => of_cluster(arguments).await,
    }
}

fn of_file(
    file: &str,
    arguments: &BlameArguments,
) -> Result<(Value, Result<Origin, String>), CommandError> {
    let document = pod_in(file)?;
    let namespace = arguments.namespace.as_deref().unwrap_or("default");
    let namespace = document.namespace(namespace).to_owned();
    let origin = match &arguments.template {
        Some(template) => Ok(of_template(template, &namespace)?),
        None => Err(
            "a file does not say what the pod was made of: give its Deployment, or what made it, as --template"
                .to_owned(),
        ),
    };
    Ok((document.value, origin))
}

async fn of_cluster(
    arguments: &BlameArguments,
) -> Result<(Value, Result<Origin, String>), CommandError> {
    let Connection { client, namespace } = lists::connect().await?;
    let namespace = arguments.namespace.clone().unwrap_or(namespace);
    // The command line has either a file or a pod.
    let name = arguments.pod.as_deref().unwrap_or_default();
    let mut pod = get(&client, "v1", "pods", Some(&namespace), name)
        .await
        .map_err(|unread| unread.into_error(&format!("pod {namespace}/{name}")))?;
    if let Value::Object(fields) = &mut pod {
        fields.insert("apiVersion".to_owned(), "v1".into());
        fields.insert("kind".to_owned(), "Pod".into());
    }
    let mut origin = match (&arguments.plugins, &arguments.template) {
        (Some(_), Some(template)) => Ok(of_template(template, &namespace)?),
        (Some(_), None) => match of_owner(&client, &pod, &namespace).await {
            Err(Unknown::Failed(error)) => return Err(error),
            Err(Unknown::Because(why)) => Err(why),
            Ok(origin) => Ok(origin),
        },
        (None, _) => Err(String::new()),
    };
    if let Ok(origin) = &mut origin {
        add_namespace(&client, &namespace, &mut origin.subject).await?;
    }
    Ok((pod, origin))
}

/// The only pod in a file.
fn pod_in(file: &str) -> Result<Document, CommandError> {
    let documents = manifest::read(&[file.to_owned()])?.into_iter();
    let is_pod = |document: &Document| manifest::kind(document) == DocumentKind::Pod;
    let mut pods: Vec<Document> = documents.filter(is_pod).collect();
    match (pods.pop(), pods.len()) {
        (Some(pod), 0) => Ok(pod),
        (None, _) => Err(CommandError::invalid(format!(
            "{file}: no Pod; write one there with kubectl get pod NAME -o yaml --show-managed-fields"
        ))),
        (Some(_), others) => Err(CommandError::invalid(format!(
            "{file}: {} Pods; give one",
            others + 1
        ))),
    }
}

/// The only pod or pod template in a file, as it comes to the chain in this namespace.
fn of_template(file: &str, namespace: &str) -> Result<Origin, CommandError> {
    let documents = manifest::read(&[file.to_owned()])?;
    let mut subjects = subjects(&documents, namespace, Warnings::Printed)?;
    match (subjects.pop(), subjects.len()) {
        (Some((document, subject)), 0) => Ok(Origin {
            title: document.title(),
            subject,
        }),
        (_, others) => Err(CommandError::invalid(format!(
            "{file}: {} pods and pod templates; give the one of which the pod was made",
            others + 1
        ))),
    }
}

/// Adds what plugins can read of the pod's namespace. Without the right to read it, they see its name only, as in the webhook.
async fn add_namespace(
    client: &Client,
    namespace: &str,
    subject: &mut Subject,
) -> Result<(), CommandError> {
    match get(client, "v1", "namespaces", None, namespace).await {
        Ok(object) => {
            let request = mem::take(&mut subject.request);
            subject.request = request.of_namespace(Some(NamespaceMetadata::of(&object)));
            Ok(())
        }
        Err(Unread::NotThere) => Ok(()),
        Err(Unread::Forbidden(message)) => {
            load::warn(&format!(
                "the namespace cannot be read ({message}), so plugins and namespaceSelector see only the label with its name"
            ));
            Ok(())
        }
        Err(failed) => Err(failed.into_error(&format!("namespace {namespace}"))),
    }
}

/// Reads an object with the user's own rights.
async fn get(
    client: &Client,
    api_version: &str,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<Value, Unread> {
    let root = match api_version.contains('/') {
        true => "apis",
        false => "api",
    };
    let place = namespace.map(|namespace| format!("namespaces/{namespace}/"));
    let url = format!(
        "/{root}/{api_version}/{}{plural}",
        place.unwrap_or_default()
    );
    let request = Request::new(url)
        .get(name, &GetParams::default())
        .map_err(|error| Unread::Failed(kube::Error::BuildRequest(error)))?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) if status.is_not_found() => Unread::NotThere,
        kube::Error::Api(status) if status.is_forbidden() => {
            Unread::Forbidden(status.message.clone())
        }
        other => Unread::Failed(other),
    })
}

impl Unread {
    fn into_error(self, what: &str) -> CommandError {
        match self {
            Self::NotThere => CommandError::invalid(format!("there is no {what}")),
            Self::Forbidden(message) => {
                CommandError::Other(anyhow::anyhow!("you may not read {what}: {message}"))
            }
            Self::Failed(error) => anyhow::Error::new(error)
                .context(format!("cannot read {what}"))
                .into(),
        }
    }
}

// The template of what owns a pod.

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

/// The template of what owns the pod, as it was when the pod was made.
async fn of_owner(client: &Client, pod: &Value, namespace: &str) -> Result<Origin, Unknown> {
    let owner = owner(pod).map_err(Unknown::Because)?;
    let (version, name) = (owner.api_version, owner.name);
    let title = format!("{} {namespace}/{name}", owner.kind);
    let object = get(client, version, owner.plural, Some(namespace), name).await;
    let mut object = object.map_err(|unread| Unknown::of(unread, &title))?;
    if object.pointer("/metadata/uid").and_then(Value::as_str) != Some(owner.uid) {
        let why = format!("{title} was deleted and created again since the pod was made");
        return Err(Unknown::Because(why));
    }
    if let Some(name) = revision(pod, &owner) {
        let what = format!("ControllerRevision {namespace}/{name}");
        let revisions = "controllerrevisions";
        let revision = get(client, "apps/v1", revisions, Some(namespace), &name).await;
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
    let Some(owner) = manifest::controller(pod) else {
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
