//! Reads the pod, and the template that it was made of.

mod owner;

use std::mem;

use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use podloom_mutation::NamespaceMetadata;
use serde_json::Value;

use self::owner::template_of;
use crate::cli::BlameArguments;
use crate::error::CommandError;
use crate::lists::{self, Connection};
use crate::manifest::{self, Depth, Document, DocumentKind};
use crate::render::pod::Subject;
use crate::subjects::{Warnings, subjects};

/// The pod, and where it came from.
pub(super) struct Source {
    pub(super) pod: Value,
    /// Why it is not known, if it is not.
    pub(super) origin: Result<Origin, String>,
}

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

impl Source {
    pub(super) async fn read(arguments: &BlameArguments) -> Result<Self, CommandError> {
        match &arguments.file {
            Some(file) => Self::of_file(file, arguments),
            None => Self::of_cluster(arguments).await,
        }
    }

    fn of_file(file: &str, arguments: &BlameArguments) -> Result<Self, CommandError> {
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
        Ok(Self {
            pod: document.value,
            origin,
        })
    }

    async fn of_cluster(arguments: &BlameArguments) -> Result<Self, CommandError> {
        let Connection { client, namespace } = lists::connect().await?;
        let namespace = arguments.namespace.clone().unwrap_or(namespace);
        // The command line has either a file or a pod.
        let name = arguments.pod.as_deref().unwrap_or_default();
        let mut pod = read(&client, "v1", "pods", Some(&namespace), name)
            .await
            .map_err(|unread| unread.into_error(&format!("pod {namespace}/{name}")))?;
        if let Value::Object(fields) = &mut pod {
            fields.insert("apiVersion".to_owned(), "v1".into());
            fields.insert("kind".to_owned(), "Pod".into());
        }
        let mut origin = match (&arguments.plugins, &arguments.template) {
            (Some(_), Some(template)) => Ok(of_template(template, &namespace)?),
            (Some(_), None) => template_of(&client, &pod, &namespace).await?,
            (None, _) => Err(String::new()),
        };
        if let Ok(origin) = &mut origin {
            add_namespace(&client, &namespace, &mut origin.subject).await?;
        }
        Ok(Self { pod, origin })
    }
}

/// The only pod in a file.
fn pod_in(file: &str) -> Result<Document, CommandError> {
    let documents = manifest::read(&[file.to_owned()], Depth::Flat)?.into_iter();
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
    let documents = manifest::read(&[file.to_owned()], Depth::Flat)?;
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
    match read(client, "v1", "namespaces", None, namespace).await {
        Ok(object) => {
            let request = mem::take(&mut subject.request);
            subject.request = request.of_namespace(Some(NamespaceMetadata::of(&object)));
            Ok(())
        }
        Err(Unread::NotThere) => Ok(()),
        Err(Unread::Forbidden(message)) => {
            lists_warning(&message);
            Ok(())
        }
        Err(failed) => Err(failed.into_error(&format!("namespace {namespace}"))),
    }
}

fn lists_warning(message: &str) {
    crate::load::warn(&format!(
        "the namespace cannot be read ({message}), so plugins and namespaceSelector see only the label with its name"
    ));
}

/// Reads an object with the user's own rights.
async fn read(
    client: &Client,
    api_version: &str,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<Value, Unread> {
    let root = if api_version.contains('/') {
        "apis"
    } else {
        "api"
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
