//! `podloom render`: what the operator would make of manifests, offline.

mod browser;
mod duplicates;
mod namespaces;
pub(crate) mod pod;

use anyhow::Context;
use podloom_controllers::PluginRun;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::cli::RenderArguments;
use crate::manifest::{self, Depth, Document, Kind};
use crate::mutator::{Broke, ChainMutator};
use crate::refusal::{Failure, Refusal, plain};
use crate::{explain, load, output};

use self::browser::Configs;
pub(crate) use self::namespaces::Namespaces;

/// An object as it will be printed, and what the chain did to its pod.
pub(crate) struct Rendered {
    pub(crate) value: Value,
    /// What each plugin did; none for what holds no pod, or without a chain.
    pub(crate) runs: Option<Vec<PluginRun>>,
}

/// An object that is refused.
pub(crate) struct Refused {
    cause: Cause,
    /// What each plugin did, up to the one that rejected the pod; none if it did not come to that.
    runs: Option<Vec<PluginRun>>,
}

/// Whose fault it is.
enum Cause {
    /// Boxed because it is large, and an object is rarely refused.
    Document(Box<Refusal>),
    /// Our own.
    Broke(Broke),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self {
            cause: Cause::Document(Box::new(refusal)),
            runs: None,
        }
    }
}

impl From<Broke> for Refused {
    fn from(broke: Broke) -> Self {
        Self {
            cause: Cause::Broke(broke),
            runs: None,
        }
    }
}

/// What all objects of one render share.
pub(crate) struct Setting<'a> {
    pub(crate) mutator: ChainMutator,
    /// The chain is called as in the operator, beside asynchronous tasks.
    pub(crate) runtime: Runtime,
    pub(crate) namespaces: Namespaces,
    pub(crate) default_namespace: &'a str,
}

/// Reads, checks, renders and prints; prints no object if anything is refused.
pub(crate) fn run(arguments: &RenderArguments) -> Result<(), Failure> {
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
            .context("could not start what plugins are called from")?,
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
                Ok(rendered) => &rendered.runs,
                Err(refused) => &refused.runs,
            };
            if let Some(runs) = runs {
                output::tell(&explain::object(&title(document, &setting), runs));
            }
        }
    }
    let results = results.into_iter().map(|(_, result)| result);
    let objects = objects(results)?;
    if objects.is_empty() {
        output::tell("nothing to print: BrowserConfigs and Namespaces are only read\n");
        return Ok(());
    }
    output::print_objects(&objects, arguments.output)
}

/// What is to be printed; nothing if anything is refused.
fn objects(
    results: impl IntoIterator<Item = Result<Rendered, Refused>>,
) -> Result<Vec<Value>, Failure> {
    let mut values = Vec::new();
    let mut refusals = Vec::new();
    for result in results {
        match result {
            Ok(rendered) => values.push(rendered.value),
            Err(Refused { cause, .. }) => match cause {
                Cause::Document(refusal) => refusals.push(*refusal),
                Cause::Broke(broke) => return Err(Failure::Broken(broke.into())),
            },
        }
    }
    if refusals.is_empty() {
        Ok(values)
    } else {
        Err(Failure::Refused(refusals))
    }
}

/// Everything that can be seen to be wrong before anything is rendered.
fn check(documents: &[Document], namespace: &str) -> Result<(), Failure> {
    let mut findings = manifest::check(documents)?;
    for warning in &findings.warnings {
        warn(warning);
    }
    findings
        .refusals
        .extend(duplicates::find(documents, namespace));
    if findings.refusals.is_empty() {
        Ok(())
    } else {
        Err(Failure::Refused(findings.refusals))
    }
}

fn render_all<'a>(
    documents: &'a [Document],
    configs: &Configs,
    setting: &Setting<'_>,
) -> Vec<(&'a Document, Result<Rendered, Refused>)> {
    let mut results = Vec::new();
    for document in documents {
        let result = match manifest::kind(document) {
            Kind::BrowserConfig | Kind::Namespace => continue,
            Kind::Browser => browser::render(document, configs, setting),
            Kind::Pod => pod::render(document, None, setting),
            Kind::Workload(template) => pod::render(document, Some(&template), setting),
            Kind::Other => Ok(Rendered {
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
    plain(&format!("{} {namespace}/{name}", document.kind))
}

fn warn(warning: &Refusal) {
    let label = output::paint(output::WARNING, "warning:");
    output::tell(&format!("{label} {warning}\n"));
}

#[cfg(test)]
mod tests;
