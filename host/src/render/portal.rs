//! Renders a PortalExpose into the Deployment of its tunnel.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Service;
use podloom_api::{PortalExposeObject, TunnelClassObject, names};
use podloom_engine::finding::{Finding, Subject};
use podloom_portal::offline::{self, OfflineTunnel};
use podloom_portal::validate::{Around, tunnel_class};
use podloom_portal::{Candidate, TunnelSettings};
use serde::de::DeserializeOwned;

use super::pod::mutate;
use super::{ObjectError, Pass, Rendered};
use super::{Problems, Setting};
use super::{diagnostic, typed};
use crate::error::Diagnostic;
use crate::manifest::{self, Document, DocumentKind, Step};

/// The tunnels of the PortalExposes, by the index of their documents; instead of a tunnel, what is wrong with the object.
pub(super) struct Tunnels(BTreeMap<usize, Result<OfflineTunnel, Vec<Diagnostic>>>);

/// The objects of one kind, each with the index of its document.
type Objects<T> = Vec<(usize, T)>;

/// What the files have of what a tunnel needs.
struct Files {
    exposes: Objects<PortalExposeObject>,
    classes: Objects<TunnelClassObject>,
    /// By namespace.
    services: BTreeMap<String, Vec<Service>>,
    settings: TunnelSettings,
}

impl Tunnels {
    /// Makes the tunnels of the documents that are not refused, and adds what is wrong with them and their classes.
    pub(super) fn of(
        documents: &[Document],
        namespace: &str,
        refused: &BTreeSet<usize>,
        settings: TunnelSettings,
        problems: &mut Problems,
    ) -> Self {
        let Problems { errors, warnings } = problems;
        let files = Files::read(documents, namespace, refused, settings);
        let classes = files.candidates();
        for (index, class) in &files.classes {
            let Some(document) = documents.get(*index) else {
                continue;
            };
            let found = tunnel_class(class, None, &classes);
            errors.extend(diagnostics(document, &found.refusals));
            warnings.extend(diagnostics(document, &found.warnings));
        }
        let mut tunnels = BTreeMap::new();
        for (index, expose) in &files.exposes {
            let Some(document) = documents.get(*index) else {
                continue;
            };
            let tunnel = files.tunnel(document, *index, expose);
            if let Ok(tunnel) = &tunnel {
                warnings.extend(diagnostics(document, &tunnel.warnings));
                warnings.extend(files.lacks_service(document, expose));
            }
            tunnels.insert(*index, tunnel);
        }
        Self(tunnels)
    }

    /// Passes the tunnel's pod through the chain.
    pub(super) fn render(
        &self,
        index: usize,
        document: &Document,
        setting: &Setting<'_>,
    ) -> Result<Rendered, ObjectError> {
        let tunnel = match self.0.get(&index) {
            Some(Ok(tunnel)) => tunnel,
            Some(Err(diagnostics)) => {
                return Err(ObjectError::Invalid {
                    diagnostics: diagnostics.clone(),
                    passes: Vec::new(),
                });
            }
            // It did not fit its type though it fits its schema.
            None => {
                typed::<PortalExposeObject>(document)?;
                return Ok(Rendered::unchanged(document));
            }
        };
        let about = setting
            .namespaces
            .get(document.namespace(setting.default_namespace));
        let request = tunnel.request().of_namespace(Some(about));
        let (pod, runs) = mutate(document, tunnel.pod(), request, setting)?;
        let passes: Vec<Pass> = runs.map(Pass::of_pod).into_iter().collect();
        match tunnel.with_pod(pod) {
            Ok(value) => Ok(Rendered {
                value,
                before: Some(tunnel.deployment().clone()),
                passes,
                note: Some(format!(
                    "{}: its pods need the Secret {}, which the operator makes; {}, a hash of it, is left out",
                    document.title(),
                    tunnel.secret,
                    names::portal::annotation::IDENTITY_CHECKSUM
                )),
            }),
            Err(problem) => Err(ObjectError::Invalid {
                diagnostics: vec![document.diagnostic(&[], problem.to_string())],
                passes,
            }),
        }
    }
}

impl Files {
    fn read(
        documents: &[Document],
        namespace: &str,
        refused: &BTreeSet<usize>,
        settings: TunnelSettings,
    ) -> Self {
        let of_kind = |kind: DocumentKind| {
            let all = documents.iter().enumerate();
            all.filter(move |(index, document)| {
                !refused.contains(index) && manifest::kind(document) == kind
            })
        };
        let mut exposes: Objects<PortalExposeObject> = read(of_kind(DocumentKind::PortalExpose));
        for (index, expose) in &mut exposes {
            let home = documents.get(*index).map(|it| it.namespace(namespace));
            expose.metadata.namespace = home.map(str::to_owned);
        }
        let mut services: BTreeMap<String, Vec<Service>> = BTreeMap::new();
        for document in documents {
            if (document.api_version.as_str(), document.kind.as_str()) == ("v1", "Service") {
                let home = document.namespace(namespace).to_owned();
                // It is printed as it is, so it need not fit its type.
                services.entry(home).or_default().extend(typed(document));
            }
        }
        Self {
            exposes,
            classes: read(of_kind(DocumentKind::TunnelClass)),
            services,
            settings,
        }
    }

    fn candidates(&self) -> Vec<Candidate<'_>> {
        self.classes.iter().map(|(_, class)| class.into()).collect()
    }

    fn tunnel(
        &self,
        document: &Document,
        index: usize,
        expose: &PortalExposeObject,
    ) -> Result<OfflineTunnel, Vec<Diagnostic>> {
        let others = self.exposes.iter().filter(|(other, _)| *other != index);
        let others: Vec<&PortalExposeObject> = others.map(|(_, other)| other).collect();
        let services: Vec<&Service> = self.service(expose).into_iter().collect();
        let around = Around {
            classes: Some(&self.candidates()),
            services: Some(services.as_slice()).filter(|services| !services.is_empty()),
            exposes: &others,
        };
        offline::render(expose, &around, &self.settings).map_err(|mut found| {
            let lacks_class = |it: &&mut Finding| it.subject == Subject::Configuration;
            if let Some(finding) = found.iter_mut().find(lacks_class)
                && self.classes.is_empty()
            {
                finding.text += " (the files have no TunnelClass; add one with -f)";
            }
            diagnostics(document, &found).collect()
        })
    }

    /// The Service of a PortalExpose, if the files have it.
    fn service(&self, expose: &PortalExposeObject) -> Option<&Service> {
        let home = expose.metadata.namespace.as_deref()?;
        let name = &expose.spec.app.service.name;
        let mut near = self.services.get(home)?.iter();
        near.find(|service| service.metadata.name.as_ref() == Some(name))
    }

    /// A Service may well be in other files.
    fn lacks_service(
        &self,
        document: &Document,
        expose: &PortalExposeObject,
    ) -> Option<Diagnostic> {
        if self.service(expose).is_some() {
            return None;
        }
        let path = ["spec", "app", "service", "name"].map(Step::from);
        let message = format!(
            "the files have no Service {} in this namespace, so its port is not checked",
            expose.spec.app.service.name
        );
        Some(document.diagnostic(&path, message))
    }
}

fn diagnostics<'a>(
    document: &'a Document,
    found: &'a [Finding],
) -> impl Iterator<Item = Diagnostic> + 'a {
    let found = found.iter();
    found.map(|finding| diagnostic(document, finding, finding.text.clone()))
}

/// The objects that fit their types. Their schema was checked, so all of them do.
fn read<'a, T: DeserializeOwned>(
    documents: impl Iterator<Item = (usize, &'a Document)>,
) -> Objects<T> {
    let read = documents.map(|(index, document)| Some((index, typed(document).ok()?)));
    read.flatten().collect()
}
