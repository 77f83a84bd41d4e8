//! `podloom render`: renders manifests offline, as the operator would.

pub(crate) mod browser;
mod context;
pub(crate) mod diff;
pub(crate) mod duplicates;
mod namespaces;
mod notes;
mod outcome;
pub(crate) mod pod;
mod portal;
mod report;
pub(crate) mod typed;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use podloom_mutation::PodMutator;
use podloom_mutation::Severity;
use podloom_mutators::Chain;
use tokio::runtime::{Builder, Runtime};

use crate::cli::{Format, RenderArguments};
use crate::error::{CommandError, Diagnostic, shown};
use crate::manifest::{self, Depth, Document, DocumentKind, Found, Unknown};
use crate::mutator::ChainMutator;
use crate::{explain, load, output};

use self::browser::Configs;
pub(crate) use self::namespaces::Namespaces;
use self::outcome::{ObjectError, Pass, Rendered};
use self::portal::Tunnels;

/// What all objects of one render share.
pub(crate) struct Setting<'a> {
    pub(crate) mutator: ChainMutator,
    /// Calls of the chain are asynchronous, as in the operator.
    pub(crate) runtime: Runtime,
    pub(crate) namespaces: Namespaces,
    pub(crate) default_namespace: &'a str,
}

/// What is wrong with the input.
#[derive(Default)]
pub(crate) struct Problems {
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// What objects are rendered from besides themselves; none if some of that has errors.
struct Needed {
    configs: Option<Configs>,
    tunnels: Option<Tunnels>,
}

/// A document, and what became of it.
type Outcome<'a> = (&'a Document, Result<Rendered, ObjectError>);

/// Reads, checks, renders and prints. Prints no object if any of them has an error, and reports the errors of all.
pub(crate) fn run(arguments: &RenderArguments) -> Result<(), CommandError> {
    let depth = if arguments.recursive {
        Depth::Recursive
    } else {
        Depth::Flat
    };
    let (files, kustomizations) = (&arguments.files, &arguments.kustomizations);
    context::check_arguments(arguments)?;
    let mut found = manifest::find(files, kustomizations, depth)?;
    manifest::name_templates(&mut found.documents, &arguments.pod_templates);
    let given = found.documents.len();
    context::add(&mut found, arguments, depth)?;
    let mut problems = Problems::default();
    let mut outcomes = render_found(&found, given, arguments, &mut problems)?;
    if arguments.no_expand {
        for (document, result) in &mut outcomes {
            if let Ok(rendered) = result {
                rendered.keep_source(document);
            }
        }
    }
    let outcomes = settle(outcomes, &mut problems)?;
    let warned = notes::of(&outcomes, Severity::Warning, &arguments.namespace);
    problems.warnings.extend(warned);
    if arguments.strict {
        problems.errors.append(&mut problems.warnings);
    }
    sort(&mut problems.errors);
    report(&outcomes, &problems, arguments)?;
    if problems.errors.is_empty() {
        return print(outcomes, arguments);
    }
    Err(match arguments.output {
        Format::Json if arguments.explain => CommandError::Reported,
        _ => CommandError::Invalid(problems.errors),
    })
}

/// Sorts by file and line, as the user fixes them. Errors about no document come first.
pub(crate) fn sort(errors: &mut [Diagnostic]) {
    errors.sort_by(|left, right| {
        let place = |error: &Diagnostic| {
            let at = error.position.as_ref();
            at.map(|at| (at.file.clone(), at.line, at.column))
        };
        place(left).cmp(&place(right))
    });
}

/// Checks what was found and renders what can be rendered of the documents that were given to render; the others are context.
fn render_found<'a>(
    found: &'a Found,
    given: usize,
    arguments: &RenderArguments,
    problems: &mut Problems,
) -> Result<Vec<Outcome<'a>>, CommandError> {
    let (documents, namespace) = (&found.documents, arguments.namespace.as_str());
    problems.errors.extend_from_slice(&found.errors);
    problems.warnings.extend_from_slice(&found.warnings);
    let checked = manifest::check(documents, Unknown::PassedOn)?;
    problems.errors.extend(checked.errors);
    problems.warnings.extend(checked.warnings);
    let duplicates = duplicates::find(documents, namespace);
    let mut refused = checked.refused;
    let configs = Configs::of(documents, namespace, &mut refused, &mut problems.errors);
    problems.warnings.extend(configs.warnings(documents));
    problems
        .warnings
        .extend(browser::warnings(documents, &refused));
    let is_refused = |kind: &DocumentKind| {
        let mut indices = refused.iter();
        indices.any(|index| {
            documents
                .get(*index)
                .is_some_and(|document| manifest::kind(document) == *kind)
        })
    };
    let is_complete = found.errors.is_empty() && duplicates.is_empty();
    let renders_browsers = is_complete && !is_refused(&DocumentKind::BrowserConfig);
    let renders_tunnels = is_complete && !is_refused(&DocumentKind::TunnelClass);
    let renders = !is_refused(&DocumentKind::Namespace);
    let settings = arguments.tunnel.settings();
    let tunnels = Tunnels::of(documents, namespace, &refused, settings, problems);
    let needed = Needed {
        configs: Some(configs).filter(|_| renders_browsers),
        tunnels: Some(tunnels).filter(|_| renders_tunnels),
    };
    problems.errors.extend(duplicates);
    let chain = chain(arguments, problems)?;
    let (Some(chain), true) = (chain, renders) else {
        return Ok(Vec::new());
    };
    let setting = Setting {
        mutator: ChainMutator::of(chain),
        runtime: Builder::new_current_thread()
            .enable_time()
            .build()
            .context("could not start the runtime that calls plugins")?,
        namespaces: Namespaces::of(documents),
        default_namespace: namespace,
    };
    let given = documents.get(..given).unwrap_or(documents);
    if setting.mutator.writes_labels() {
        let unknown = given.iter().filter_map(manifest::unknown_owner);
        problems.warnings.extend(unknown);
    }
    Ok(render_all(given, &refused, &needed, &setting))
}

/// Loads the chain, if there is one. None if it has errors, which are added to the problems.
fn chain(
    arguments: &RenderArguments,
    problems: &mut Problems,
) -> Result<Option<Option<Chain>>, CommandError> {
    let directory = arguments.plugins.as_deref();
    match directory.map(load::chain_and_warnings).transpose() {
        Ok(None) => Ok(Some(None)),
        Ok(Some((chain, warnings))) => {
            let warnings = warnings.into_iter().map(Diagnostic::new);
            problems.warnings.extend(warnings);
            Ok(Some(Some(chain)))
        }
        Err(CommandError::Invalid(errors)) => {
            problems.errors.extend(errors);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// Renders what has no errors of its own.
fn render_all<'a>(
    documents: &'a [Document],
    refused: &BTreeSet<usize>,
    needed: &Needed,
    setting: &Setting<'_>,
) -> Vec<Outcome<'a>> {
    let mut outcomes = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        if refused.contains(&index) {
            continue;
        }
        let result = match manifest::kind(document) {
            DocumentKind::Browser => match &needed.configs {
                Some(configs) => browser::render(document, configs, setting),
                None => continue,
            },
            DocumentKind::PortalExpose => match &needed.tunnels {
                Some(tunnels) => tunnels.render(index, document, setting),
                None => continue,
            },
            DocumentKind::Pod => pod::render(document, setting),
            DocumentKind::Workload(template) => {
                pod::render_templates(document, &[template], setting)
            }
            DocumentKind::Named(templates) => pod::render_templates(document, &templates, setting),
            DocumentKind::BrowserConfig
            | DocumentKind::TunnelClass
            | DocumentKind::Namespace
            | DocumentKind::Infrastructure(_)
            | DocumentKind::Cleaner
            | DocumentKind::Other => Ok(Rendered::unchanged(document)),
        };
        outcomes.push((document, result));
    }
    outcomes
}

/// A document that was rendered or rejected, and what each plugin did.
struct Settled<'a> {
    document: &'a Document,
    /// None if the object was rejected.
    rendered: Option<Rendered>,
    passes: Vec<Pass>,
}

/// Moves the errors of objects to the problems.
fn settle<'a>(
    outcomes: Vec<Outcome<'a>>,
    problems: &mut Problems,
) -> Result<Vec<Settled<'a>>, CommandError> {
    let mut settled = Vec::new();
    for (document, result) in outcomes {
        let (rendered, passes) = match result {
            Ok(mut rendered) => {
                let passes = std::mem::take(&mut rendered.passes);
                (Some(rendered), passes)
            }
            Err(ObjectError::Invalid {
                diagnostics,
                passes,
            }) => {
                problems.errors.extend(diagnostics);
                (None, passes)
            }
            Err(ObjectError::Panicked(panicked)) => {
                return Err(CommandError::Other(panicked.into()));
            }
        };
        settled.push(Settled {
            document,
            rendered,
            passes,
        });
    }
    Ok(settled)
}

/// Prints on standard error what there is to say beside the objects and the errors.
fn report(
    outcomes: &[Settled<'_>],
    problems: &Problems,
    arguments: &RenderArguments,
) -> Result<(), CommandError> {
    if arguments.explain && arguments.output == Format::Json {
        let text = output::json_text(&report::of(outcomes, problems, &arguments.namespace))?;
        output::print_note(&text);
        return Ok(());
    }
    problems.warnings.iter().for_each(output::warn);
    if !arguments.explain {
        for note in notes::of(outcomes, Severity::Normal, &arguments.namespace) {
            output::print_note(&format!("note: {note}\n"));
        }
    }
    let printed = outcomes.iter().filter(|_| problems.errors.is_empty());
    for note in printed.filter_map(|outcome| outcome.rendered.as_ref()?.note.as_ref()) {
        output::print_note(&format!("note: {}\n", shown(note)));
    }
    if arguments.explain {
        for outcome in outcomes {
            for pass in &outcome.passes {
                let title = title(outcome.document, pass, &arguments.namespace);
                output::print_note(&explain::object(&title, &pass.runs));
            }
        }
    }
    Ok(())
}

/// Prints the objects, or what the chain changed in them.
fn print(outcomes: Vec<Settled<'_>>, arguments: &RenderArguments) -> Result<(), CommandError> {
    let rendered: Vec<(&Document, Rendered)> = outcomes
        .into_iter()
        .filter_map(|outcome| Some((outcome.document, outcome.rendered?)))
        .filter(|(document, rendered)| !arguments.only_changed || rendered.is_changed(document))
        .collect();
    let note = |text: &str| {
        // Standard error has a report that programs read.
        if !(arguments.explain && arguments.output == Format::Json) {
            output::print_note(text);
        }
    };
    if rendered.is_empty() {
        note("nothing to print: the chain changes no object\n");
        return Ok(());
    }
    if !arguments.only_changed && !arguments.diff {
        expanded(&rendered).iter().for_each(|text| note(text));
    }
    if arguments.diff {
        let diffs: Vec<String> = rendered
            .iter()
            .map(|(document, rendered)| diff::of(document, rendered))
            .collect::<anyhow::Result<_>>()?;
        if diffs.iter().all(String::is_empty) {
            note("no differences\n");
        }
        return output::print(&diffs.concat());
    }
    if arguments.output == Format::Json {
        let values: Vec<_> = rendered
            .into_iter()
            .map(|(_, object)| object.value)
            .collect();
        return output::print_objects(&values, Format::Json);
    }
    let texts = rendered
        .iter()
        .map(|(document, rendered)| rendered.yaml(document))
        .collect::<anyhow::Result<Vec<_>>>()?;
    output::print(&texts.join("---\n"))
}

/// What to know before the output goes to kubectl or Helm: some of it is in place of what was given.
fn expanded(rendered: &[(&Document, Rendered)]) -> Option<String> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (document, _) in rendered.iter().filter(|(it, made)| made.is_expanded(it)) {
        *kinds.entry(&document.kind).or_default() += 1;
    }
    let numbers: Vec<String> = kinds
        .iter()
        .map(|(kind, number)| explain::count(*number, kind))
        .collect();
    (!numbers.is_empty()).then(|| {
        format!(
            "note: {}: printed is what the operator makes of them; --no-expand prints them as they are, for kubectl and Helm\n",
            numbers.join(", ")
        )
    })
}

fn title(document: &Document, pass: &Pass, namespace: &str) -> String {
    let namespace = document.namespace(namespace);
    let name = match document.name() {
        "" => "(name to be generated)",
        name => name,
    };
    let template = pass.template.as_deref().map(|path| format!(", {path}"));
    shown(&format!(
        "{} {namespace}/{name}{}",
        document.kind,
        template.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests;
