//! Renders a Browser into its final pod.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use podloom_api::{BrowserConfigObject, BrowserObject, SelenosisApi, names};
use podloom_browser::render::{
    ConfigRef, Missing, ResolveError, accept, browser_labels, render_pod, resolve,
};
use podloom_browser::validate::{self, Finding};
use podloom_engine::finding::{self, FieldPath};
use podloom_mutation::{NamespaceMetadata, PodRequest};

use super::Namespaces;
use super::Setting;
use super::pod::{Subject, mutate};
use super::{ObjectError, Pass, Rendered};
use super::{diagnostic, typed};
use crate::error::Diagnostic;
use crate::manifest::{self, Document, DocumentKind};

/// The BrowserConfigs of each namespace, each with the index of its document.
pub(crate) struct Configs(BTreeMap<String, Vec<(usize, BrowserConfigObject)>>);

impl Configs {
    /// Reads the BrowserConfigs among the documents that are not refused. One that cannot be read is refused, with an error.
    pub(crate) fn of<D: Borrow<Document>>(
        documents: &[D],
        namespace: &str,
        refused: &mut BTreeSet<usize>,
        errors: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut configs: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (number, document) in documents.iter().map(Borrow::borrow).enumerate() {
            if refused.contains(&number) || manifest::kind(document) != DocumentKind::BrowserConfig
            {
                continue;
            }
            match typed(document) {
                Ok(config) => configs
                    .entry(document.namespace(namespace).to_owned())
                    .or_default()
                    .push((number, config)),
                Err(diagnostic) => {
                    errors.push(diagnostic);
                    refused.insert(number);
                }
            }
        }
        Self(configs)
    }

    /// Warnings for what the operator would report in the conditions of the BrowserConfigs: versions that two of them define, and
    /// versions that cannot make a pod.
    pub(super) fn warnings(&self, documents: &[Document]) -> Vec<Diagnostic> {
        let mut warnings = Vec::new();
        for configs in self.0.values() {
            for acceptance in accept(&refs(configs)) {
                let document = configs
                    .iter()
                    .find(|(_, config)| config.metadata.name == acceptance.config.metadata.name)
                    .and_then(|(number, _)| documents.get(*number));
                let Some(document) = document else { continue };
                // The operator stores them all the same.
                let found = validate::accepted(&acceptance).tolerated().warnings;
                warnings.extend(found.iter().map(|finding| {
                    let reason = match finding.subject {
                        validate::Subject::Duplicate => names::reason::DUPLICATE_BROWSER,
                        _ => names::reason::INVALID_TEMPLATE,
                    };
                    diagnostic(document, finding, format!("{reason}: {}", finding.text))
                }));
            }
        }
        warnings
    }

    fn in_namespace(&self, namespace: &str) -> Vec<ConfigRef<'_>> {
        self.0
            .get(namespace)
            .map(|configs| refs(configs))
            .unwrap_or_default()
    }

    /// Which namespaces have BrowserConfigs, for the error of a Browser that found none.
    fn elsewhere(&self) -> String {
        let namespaces: Vec<&str> = self.0.keys().map(String::as_str).collect();
        match namespaces.as_slice() {
            [] => "add one with -f".to_owned(),
            [one] => format!("the files have BrowserConfigs only in namespace {one}"),
            several => format!(
                "the files have BrowserConfigs only in namespaces {}",
                several.join(", ")
            ),
        }
    }
}

fn refs(configs: &[(usize, BrowserConfigObject)]) -> Vec<ConfigRef<'_>> {
    configs
        .iter()
        .map(|(_, config)| ConfigRef {
            metadata: &config.metadata,
            spec: &config.spec,
        })
        .collect()
}

/// Warnings for what is ignored in the options of Browsers, which may be slips.
pub(super) fn warnings(documents: &[Document], refused: &BTreeSet<usize>) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        if refused.contains(&number) || manifest::kind(document) != DocumentKind::Browser {
            continue;
        }
        // A Browser that cannot be read is an error when it is rendered.
        let Ok(browser) = typed::<BrowserObject>(document) else {
            continue;
        };
        let found = validate::ignored_options(&browser);
        let warning = |finding: &Finding| diagnostic(document, finding, finding.text.clone());
        warnings.extend(found.iter().map(warning));
    }
    warnings
}

/// Resolves the configuration of a Browser, renders its pod and passes that through the chain.
pub(super) fn render(
    document: &Document,
    configs: &Configs,
    setting: &Setting<'_>,
) -> Result<Rendered, ObjectError> {
    let Subject { pod, request } = subject(
        document,
        configs,
        &setting.namespaces,
        setting.default_namespace,
    )?;
    let before = Some(pod.clone());
    let (value, runs) = mutate(document, pod, request, setting)?;
    let passes = runs.map(Pass::of_pod);
    Ok(Rendered {
        value,
        before,
        passes: passes.into_iter().collect(),
        note: None,
    })
}

/// The pod of a Browser among the documents, before the chain.
pub(crate) fn subject(
    document: &Document,
    configs: &Configs,
    namespaces: &Namespaces,
    default_namespace: &str,
) -> Result<Subject, Diagnostic> {
    let namespace = document.namespace(default_namespace).to_owned();
    let mut browser: BrowserObject = typed(document)?;
    browser.metadata.namespace = Some(namespace.clone());
    let api = SelenosisApi::recognize(&document.api_version, &document.kind)
        .map(|(api, _)| api)
        .unwrap_or_default();
    let about = namespaces.get(&namespace);
    let near = configs.in_namespace(&namespace);
    subject_of(api, &browser, &near, about).map_err(|finding| {
        let resolved = resolve(&near, &browser.spec);
        let message = match resolved {
            Err(ResolveError::NotFound(Missing::Configs)) => {
                let elsewhere = configs.elsewhere();
                format!("{} (namespace {namespace}; {elsewhere})", finding.text)
            }
            _ => finding.text.clone(),
        };
        diagnostic(document, &finding, message)
    })
}

/// The pod of a Browser, before the chain, and what plugins can read about it: the Browser as the operator stores it, with the three
/// labels that identify it.
pub(crate) fn subject_of(
    api: SelenosisApi,
    browser: &BrowserObject,
    configs: &[ConfigRef<'_>],
    about: NamespaceMetadata,
) -> Result<Subject, Finding> {
    let resolved = resolve(configs, &browser.spec).map_err(|error| Finding::from(&error))?;
    let pod = render_pod(api, &browser.metadata, &browser.spec, &resolved);
    let pod = pod.map_err(|error| Finding::from(&error))?;
    let pod = serde_json::to_value(pod).map_err(|error| {
        let text = format!("the pod cannot be written as JSON: {error}");
        Finding::at(FieldPath::default(), &text, finding::Subject::Problem)
    })?;
    let metadata = &browser.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.extend(
        browser_labels(&name, &browser.spec)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value)),
    );
    let request = PodRequest {
        kind: podloom_api::SelenosisKind::Browser.name(),
        name,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        labels,
        annotations: metadata.annotations.clone().unwrap_or_default(),
        ..PodRequest::default()
    };
    let request = request.of_namespace(Some(about));
    Ok(Subject { pod, request })
}
