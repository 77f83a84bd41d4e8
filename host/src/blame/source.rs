//! Reads the pod, and the template that it was made of.

use std::mem;

use kube::Client;
use podloom_mutation::NamespaceMetadata;
use serde_json::Value;

use crate::cli::BlameArguments;
use crate::error::CommandError;
use crate::feed::{FoundPod, KINDS, Listed};
use crate::lists::{Place, Trouble};
use crate::manifest::{Document, DocumentKind};
use crate::render::Namespaces;
use crate::render::pod::{Subject, subject_of};
use crate::subjects::subjects;
use crate::{lists, load, manifest, output};

/// The pod, and where it came from, or why that is not known.
pub(super) async fn read(
    arguments: &BlameArguments,
) -> Result<(Value, Result<FoundPod, String>), CommandError> {
    match &arguments.file {
        Some(file) => of_file(file, arguments),
        None => of_cluster(arguments).await,
    }
}

fn of_file(
    file: &str,
    arguments: &BlameArguments,
) -> Result<(Value, Result<FoundPod, String>), CommandError> {
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
) -> Result<(Value, Result<FoundPod, String>), CommandError> {
    let client = lists::connect().await?;
    let namespace = arguments.namespace.as_deref();
    let namespace = namespace.unwrap_or(client.default_namespace());
    // The command line has either a file or a pod.
    let name = arguments.pod.as_deref().unwrap_or_default();
    let pods = Place::new("v1", "pods").within(namespace);
    let pod = pods.get(&client, name).await;
    let mut pod = pod.map_err(|trouble| unread(trouble, &format!("pod {namespace}/{name}")))?;
    if let Value::Object(fields) = &mut pod {
        fields.insert("apiVersion".to_owned(), "v1".into());
        fields.insert("kind".to_owned(), "Pod".into());
    }
    let mut origin = match (&arguments.plugins, &arguments.template) {
        (Some(_), Some(template)) => Ok(of_template(template, namespace)?),
        (Some(_), None) => match of_owner(&client, &pod, namespace).await {
            Err(Unknown::Failed(error)) => return Err(error),
            Err(Unknown::Because(why)) => Err(why),
            Ok(origin) => Ok(origin),
        },
        (None, _) => Err(String::new()),
    };
    if let Ok(origin) = &mut origin {
        add_namespace(&client, namespace, &mut origin.subject).await?;
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
fn of_template(file: &str, namespace: &str) -> Result<FoundPod, CommandError> {
    let documents = manifest::read(&[file.to_owned()])?;
    let mut subjects = subjects(&documents, namespace, &mut output::warn)?;
    match (subjects.pop(), subjects.len()) {
        (Some((document, subject)), 0) => Ok(FoundPod {
            namespace: namespace.to_owned(),
            name: document.title(),
            place: Some(document.position(&[])),
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
    let namespaces = Place::new("v1", "namespaces");
    match namespaces.get(client, namespace).await {
        Ok(object) => {
            let request = mem::take(&mut subject.request);
            subject.request = request.of_namespace(Some(NamespaceMetadata::of(&object)));
            Ok(())
        }
        Err(Trouble::NotServed) => Ok(()),
        Err(Trouble::Forbidden(message)) => {
            load::warn(&format!(
                "the namespace cannot be read ({message}), so plugins and namespaceSelector see only the label with its name"
            ));
            Ok(())
        }
        Err(failed) => Err(unread(failed, &format!("namespace {namespace}"))),
    }
}

/// Why an object was not read.
fn unread(trouble: Trouble, what: &str) -> CommandError {
    match trouble {
        Trouble::NotServed => CommandError::invalid(format!("there is no {what}")),
        Trouble::Forbidden(message) => {
            CommandError::Other(anyhow::anyhow!("you may not read {what}: {message}"))
        }
        Trouble::Other(error) => anyhow::Error::new(error)
            .context(format!("cannot read {what}"))
            .into(),
    }
}

// The template of what owns a pod.

/// The kinds whose pods are made of their template.
const OWNERS: [&str; 5] = [
    "DaemonSet",
    "ReplicaSet",
    "StatefulSet",
    "Job",
    "ReplicationController",
];

/// The label of pods that are made of a ControllerRevision.
const REVISION: &str = "controller-revision-hash";

/// Why the template is not known.
enum Unknown {
    Because(String),
    Failed(CommandError),
}

/// The template of what owns the pod, as it was when the pod was made.
async fn of_owner(client: &Client, pod: &Value, namespace: &str) -> Result<FoundPod, Unknown> {
    let (listed, name, uid) = owner(pod).map_err(Unknown::Because)?;
    let (version, kind) = (listed.api_version, listed.kind);
    let title = format!("{kind} {namespace}/{name}");
    let owners = Place::new(version, listed.plural).within(namespace);
    let object = owners.get(client, name).await;
    let mut object = object.map_err(|trouble| Unknown::of(trouble, &title))?;
    if object.pointer("/metadata/uid").and_then(Value::as_str) != Some(uid) {
        let why = format!("{title} was deleted and created again since the pod was made");
        return Err(Unknown::Because(why));
    }
    if let Some(name) = revision(pod, kind, name) {
        let what = format!("ControllerRevision {namespace}/{name}");
        let revisions = Place::new("apps/v1", "controllerrevisions").within(namespace);
        let revision = revisions.get(client, &name).await;
        let mut revision = revision.map_err(|trouble| Unknown::of(trouble, &what))?;
        let template = revision.pointer_mut("/data/spec/template").map(Value::take);
        let spec = object.get_mut("spec").and_then(Value::as_object_mut);
        if let (Some(spec), Some(template)) = (spec, template) {
            spec.insert("template".to_owned(), template);
        }
    }
    let template = manifest::workload(version, kind, &object);
    let namespaces = Namespaces::default();
    Ok(FoundPod {
        namespace: namespace.to_owned(),
        subject: subject_of(&object, template.as_ref(), &namespaces, namespace),
        name: title,
        place: None,
    })
}

impl Unknown {
    fn of(trouble: Trouble, what: &str) -> Self {
        match trouble {
            Trouble::NotServed => Self::Because(format!("{what} is gone")),
            Trouble::Forbidden(message) => {
                Self::Because(format!("you may not read {what}: {message}"))
            }
            failed @ Trouble::Other(_) => Self::Failed(unread(failed, what)),
        }
    }
}

/// What controls a pod, if it is made of its template: its kind, its name and its UID.
fn owner(pod: &Value) -> Result<(Listed, &str, &str), String> {
    let Some(owner) = manifest::controller(pod) else {
        return Err(
            "nobody owns this pod, so it is not known how it was submitted: give its manifest as --template"
                .to_owned(),
        );
    };
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let mut known = KINDS.into_iter().filter(|it| OWNERS.contains(&it.kind));
    let known = known.find(|it| it.api_version == api_version && it.kind == kind);
    let known = known.ok_or_else(|| format!(
        "its owner is a {kind} of {api_version}, whose pod template is not known: give the pod as it was submitted as --template"
    ))?;
    Ok((known, text("name"), text("uid")))
}

/// The ControllerRevision that holds the template of which the pod was made: that of its owner may be another one now.
fn revision(pod: &Value, kind: &str, owner: &str) -> Option<String> {
    let label = pod.pointer("/metadata/labels")?.get(REVISION)?.as_str()?;
    match kind {
        "StatefulSet" => Some(label.to_owned()),
        "DaemonSet" => Some(format!("{owner}-{label}")),
        _ => None,
    }
}
