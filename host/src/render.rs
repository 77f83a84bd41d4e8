//! `podloom render`: renders manifests offline, as the operator would.

mod browser;
mod duplicates;
mod namespaces;
pub(crate) mod pod;

use anyhow::Context;
use podloom_controllers::PluginRun;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::cli::RenderArguments;
use crate::error::{CommandError, Diagnostic, escape_controls};
use crate::manifest::{self, Depth, Document, DocumentKind};
use crate::mutator::{ChainMutator, ChainPanicked};
use crate::{explain, load, output};

use self::browser::Configs;
pub(crate) use self::namespaces::Namespaces;

/// An object as it is printed, and what each plugin did to its pod.
pub(crate) struct Rendered {
    pub(crate) value: Value,
    /// None if the object holds no pod, or if there is no chain.
    pub(crate) runs: Option<Vec<PluginRun>>,
}

/// Why an object could not be rendered.
pub(crate) enum ObjectError {
    /// The object is invalid, or a plugin rejected its pod.
    Invalid {
        /// Boxed because it is large, and errors are rare.
        diagnostic: Box<Diagnostic>,
        /// What each plugin did, up to the one that rejected the pod; none if no plugin ran.
        runs: Option<Vec<PluginRun>>,
    },
    /// The chain panicked, which is a bug of Podloom.
    Panicked(ChainPanicked),
}

impl ObjectError {
    fn runs(&self) -> Option<&[PluginRun]> {
        match self {
            Self::Invalid { runs, .. } => runs.as_deref(),
            Self::Panicked(_) => None,
        }
    }
}

impl From<Diagnostic> for ObjectError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Invalid {
            diagnostic: Box::new(diagnostic),
            runs: None,
        }
    }
}

impl From<ChainPanicked> for ObjectError {
    fn from(panicked: ChainPanicked) -> Self {
        Self::Panicked(panicked)
    }
}

/// What all objects of one render share.
pub(crate) struct Setting<'a> {
    pub(crate) mutator: ChainMutator,
    /// Calls of the chain are asynchronous, as in the operator.
    pub(crate) runtime: Runtime,
    pub(crate) namespaces: Namespaces,
    pub(crate) default_namespace: &'a str,
}

/// Reads, checks, renders and prints. Prints no object if any of them has an error.
pub(crate) fn run(arguments: &RenderArguments) -> Result<(), CommandError> {
    let depth = if arguments.recursive {
        Depth::Recursive
    } else {
        Depth::Flat
    };
    let documents = manifest::read(&arguments.files, depth)?;
    check(&documents, &arguments.namespace)?;
    let chain = arguments.plugins.as_deref().map(load::chain).transpose()?;
    let setting = Setting {
        mutator: ChainMutator::of(chain),
        runtime: Builder::new_current_thread()
            .enable_time()
            .build()
            .context("could not start the runtime that calls plugins")?,
        namespaces: Namespaces::of(&documents),
        default_namespace: &arguments.namespace,
    };
    let configs = Configs::of(&documents, &arguments.namespace)?;
    for warning in configs.warnings(&documents) {
        warn(&warning);
    }
    let results = render_all(&documents, &configs, &setting);
    if arguments.explain {
        for (document, result) in &results {
            let runs = match result {
                Ok(rendered) => rendered.runs.as_deref(),
                Err(error) => error.runs(),
            };
            if let Some(runs) = runs {
                output::print_note(&explain::object(&title(document, &setting), runs));
            }
        }
    }
    let results = results.into_iter().map(|(_, result)| result);
    let objects = objects(results)?;
    if objects.is_empty() {
        output::print_note(
            "nothing to print: BrowserConfigs and Namespaces are read, not printed\n",
        );
        return Ok(());
    }
    output::print_objects(&objects, arguments.output)
}

/// The objects to print, or all errors if there are any.
fn objects(
    results: impl IntoIterator<Item = Result<Rendered, ObjectError>>,
) -> Result<Vec<Value>, CommandError> {
    let mut values = Vec::new();
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(rendered) => values.push(rendered.value),
            Err(ObjectError::Invalid { diagnostic, .. }) => errors.push(*diagnostic),
            Err(ObjectError::Panicked(panicked)) => {
                return Err(CommandError::Other(panicked.into()));
            }
        }
    }
    if errors.is_empty() {
        Ok(values)
    } else {
        Err(CommandError::Invalid(errors))
    }
}

/// Finds the errors that can be found before anything is rendered.
fn check(documents: &[Document], namespace: &str) -> Result<(), CommandError> {
    let mut findings = manifest::check(documents)?;
    for warning in &findings.warnings {
        warn(warning);
    }
    findings
        .errors
        .extend(duplicates::find(documents, namespace));
    if findings.errors.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Invalid(findings.errors))
    }
}

fn render_all<'a>(
    documents: &'a [Document],
    configs: &Configs,
    setting: &Setting<'_>,
) -> Vec<(&'a Document, Result<Rendered, ObjectError>)> {
    let mut results = Vec::new();
    for document in documents {
        let result = match manifest::kind(document) {
            DocumentKind::BrowserConfig | DocumentKind::Namespace => continue,
            DocumentKind::Browser => browser::render(document, configs, setting),
            DocumentKind::Pod => pod::render(document, None, setting),
            DocumentKind::Workload(template) => pod::render(document, Some(&template), setting),
            DocumentKind::Other => Ok(Rendered {
                value: document.value.clone(),
                runs: None,
            }),
        };
        results.push((document, result));
    }
    results
}

fn title(document: &Document, setting: &Setting<'_>) -> String {
    let namespace = document.namespace(setting.default_namespace);
    let name = match document.name() {
        "" => "(name to be generated)",
        name => name,
    };
    escape_controls(&format!("{} {namespace}/{name}", document.kind))
}

fn warn(warning: &Diagnostic) {
    let label = output::paint(output::WARNING, "warning:");
    output::print_note(&format!("{label} {warning}\n"));
}

#[cfg(test)]
mod tests;
