//! The pods of manifests.

use tokio::sync::mpsc::Sender;

use super::{Candidate, Skipped};
use crate::cli::PodArguments;
use crate::error::{CommandError, Diagnostic};
use crate::manifest::{self, Depth, Document, DocumentKind, Template, Unknown, field_name};
use crate::output;
use crate::render::browser::{self, Configs};
use crate::render::pod::{Subject, subject};
use crate::render::{Namespaces, duplicates, sort};

/// Manifests without mistakes.
pub(super) struct Files {
    documents: Vec<Document>,
    configs: Configs,
    namespace: String,
}

impl Files {
    /// Reads and checks the files, as render does.
    pub(super) fn read(arguments: &PodArguments) -> Result<Self, CommandError> {
        let namespace = arguments.namespace.as_deref().unwrap_or("default");
        let mut documents = find(arguments)?;
        manifest::name_templates(&mut documents, &arguments.pod_templates);
        let findings = manifest::check(&documents, Unknown::LeftOut)?;
        findings.warnings.iter().for_each(output::warn);
        let (mut errors, mut refused) = (findings.errors, findings.refused);
        errors.extend(duplicates::find(&documents, namespace));
        let configs = Configs::of(&documents, namespace, &mut refused, &mut errors);
        if errors.is_empty() {
            return Ok(Self {
                documents,
                configs,
                namespace: namespace.to_owned(),
            });
        }
        sort(&mut errors);
        Err(CommandError::Invalid(errors))
    }

    pub(super) async fn send(
        self,
        candidates: Sender<Candidate>,
    ) -> Result<Vec<Skipped>, CommandError> {
        let namespaces = Namespaces::of(&self.documents);
        let mut has_tunnels = false;
        let (configs, namespace) = (self.configs, self.namespace);
        // Each document is dropped as soon as its pods are sent.
        for document in self.documents {
            has_tunnels |= manifest::kind(&document) == DocumentKind::PortalExpose;
            for (template, subject) in pods(&document, &configs, &namespaces, &namespace)? {
                let candidate = candidate(&document, &namespace, template, subject);
                if candidates.send(candidate).await.is_err() {
                    return Ok(Vec::new());
                }
            }
        }
        let tunnels = has_tunnels.then(|| Skipped {
            what: "PortalExposes".to_owned(),
            why: "compare what podloom render prints for them with each chain".to_owned(),
        });
        Ok(tunnels.into_iter().collect())
    }
}

/// The pods of a document. Each has the path of its template if the document can have several.
fn pods(
    document: &Document,
    configs: &Configs,
    namespaces: &Namespaces,
    namespace: &str,
) -> Result<Vec<(Option<String>, Subject)>, CommandError> {
    let pod = |template: Option<&Template>| subject(document, template, namespaces, namespace);
    Ok(match manifest::kind(document) {
        DocumentKind::Browser => {
            let made = browser::subject(document, configs, namespaces, namespace);
            vec![(
                None,
                made.map_err(|error| CommandError::Invalid(vec![error]))?,
            )]
        }
        DocumentKind::Pod => vec![(None, pod(None))],
        DocumentKind::Workload(template) => vec![(None, pod(Some(&template)))],
        DocumentKind::Named(templates) => {
            let made = templates.iter().map(|template| {
                let path = field_name(&template.path);
                (
                    Some(path).filter(|_| templates.len() > 1),
                    pod(Some(template)),
                )
            });
            made.collect()
        }
        _ => Vec::new(),
    })
}

fn find(arguments: &PodArguments) -> Result<Vec<Document>, CommandError> {
    let depth = |is_recursive: bool| match is_recursive {
        true => Depth::Recursive,
        false => Depth::Flat,
    };
    let (mut documents, mut errors): (Vec<Document>, Vec<Diagnostic>) = Default::default();
    let mut add = |files: &[String], kustomizations: &[String], depth: Depth| {
        if !(files.is_empty() && kustomizations.is_empty()) {
            let found = manifest::find(files, kustomizations, depth)?;
            found.warnings.iter().for_each(output::warn);
            documents.extend(found.documents);
            errors.extend(found.errors);
        }
        Ok::<(), CommandError>(())
    };
    let PodArguments {
        files,
        kustomizations,
        ..
    } = arguments;
    add(files, kustomizations, depth(arguments.recursive))?;
    let corpus: Vec<String> = arguments.corpus.iter().cloned().collect();
    add(&corpus, &[], depth(true))?;
    match errors.is_empty() {
        true => Ok(documents),
        false => Err(CommandError::Invalid(errors)),
    }
}

fn candidate(
    document: &Document,
    default_namespace: &str,
    template: Option<String>,
    subject: Subject,
) -> Candidate {
    let namespace = document.namespace(default_namespace);
    let name = match document.name() {
        "" => "(name to be generated)",
        name => name,
    };
    let template = template.map(|path| format!(", {path}"));
    Candidate {
        name: format!(
            "{} {namespace}/{name}{}",
            document.kind,
            template.unwrap_or_default()
        ),
        namespace: namespace.to_owned(),
        subject,
    }
}
