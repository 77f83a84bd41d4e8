//! The pods of manifests.

use std::borrow::Borrow;
use std::path::Path;

use super::{FoundPod, Skipped};
use crate::cli::PodArguments;
use crate::error::{CommandError, Diagnostic};
use crate::exceptions::Exceptions;
use crate::manifest::{
    Depth, Document, DocumentKind, Findings, Outlined, Schemas, Template, Unknown, field_name,
};
use crate::render::browser::Configs;
use crate::render::pod::{Subject, subject, title};
use crate::render::{Namespaces, browser, sort};
use crate::{manifest, output, render};

/// Manifests without mistakes.
pub(crate) struct Files {
    documents: Vec<Outlined>,
    configs: Configs,
    namespace: String,
}

impl Files {
    /// Reads and checks the files, as render does.
    pub(super) fn read(arguments: &PodArguments) -> Result<Self, CommandError> {
        let namespace = arguments.namespace.as_deref().unwrap_or("default");
        let (documents, found) = checked(arguments)?;
        let Findings {
            mut errors,
            mut refused,
            ..
        } = found;
        errors.extend(render::duplicates(&documents, namespace));
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

    /// Reads and checks a directory of recorded manifests.
    pub(super) fn of_corpus(directory: &Path, namespace: &str) -> Result<Self, CommandError> {
        Self::read(&PodArguments {
            corpus: Some(directory.display().to_string()),
            namespace: Some(namespace.to_owned()),
            ..PodArguments::default()
        })
    }

    /// What is left out, and why.
    pub(super) fn skipped(&self) -> Vec<Skipped> {
        let is_tunnel = |it: &Outlined| manifest::kind(it.borrow()) == DocumentKind::PortalExpose;
        let tunnels = self.documents.iter().any(is_tunnel).then(|| Skipped {
            what: "PortalExposes".to_owned(),
            why: "compare what podloom render prints for them with each chain".to_owned(),
        });
        tunnels.into_iter().collect()
    }

    /// All pods. Each document is dropped as soon as its pods are taken.
    pub(super) fn pods(self) -> impl Iterator<Item = Result<FoundPod, CommandError>> {
        let namespaces = Namespaces::of(&self.documents);
        let documents = self.documents.iter().map(Borrow::borrow);
        let exceptions = Exceptions::of_documents(documents, &self.namespace);
        let (configs, namespace) = (self.configs, self.namespace);
        self.documents.into_iter().flat_map(move |document| {
            let document = document.unfold();
            let found = pods(&document, &configs, &namespaces, &namespace);
            let named = |(template, subject): (Option<String>, Subject)| FoundPod {
                namespace: document.namespace(&namespace).to_owned(),
                name: title(&document, template.as_deref(), &namespace),
                place: Some(document.position(&[])),
                subject: subject.excepted(&exceptions),
            };
            match found {
                Ok(found) => found.into_iter().map(named).map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        })
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

/// Reads and checks one file after the other, so that the text and the positions of one file are held at once.
fn checked(arguments: &PodArguments) -> Result<(Vec<Outlined>, Findings), CommandError> {
    let PodArguments {
        files,
        kustomizations,
        ..
    } = arguments;
    let (mut all, mut findings) = (Vec::new(), Findings::default());
    let mut schemas = Schemas::default();
    let mut unreadable: Vec<Diagnostic> = Vec::new();
    let mut add = |files: &[String], kustomizations: &[String], depth: Depth| {
        if files.is_empty() && kustomizations.is_empty() {
            return Ok(());
        }
        let found = manifest::find_each(files, kustomizations, depth, |mut documents| {
            manifest::name_templates(&mut documents, &arguments.pod_templates);
            let found =
                manifest::check_with(&mut schemas, &documents, Unknown::LeftOut, &|_| None)?;
            let owners = documents.iter().filter_map(manifest::unknown_owner);
            found
                .warnings
                .into_iter()
                .chain(owners)
                .for_each(|it| output::warn(&it));
            let first = all.len();
            let refused = found.refused.iter().map(|it| first + it);
            findings.refused.extend(refused);
            findings.errors.extend(found.errors);
            all.extend(documents.into_iter().map(Outlined::of));
            Ok(())
        })?;
        found.warnings.iter().for_each(output::warn);
        unreadable.extend(found.errors);
        Ok::<(), CommandError>(())
    };
    add(files, kustomizations, Depth::of(arguments.recursive))?;
    let corpus: Vec<String> = arguments.corpus.iter().cloned().collect();
    add(&corpus, &[], Depth::Recursive)?;
    findings.errors.append(&mut unreadable);
    Ok((all, findings))
}
