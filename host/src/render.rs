//! `podloom render`: renders manifests offline, as the operator would.

pub(crate) mod browser;
pub(crate) mod pipe;
pub(crate) mod pod;
mod portal;
mod report;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use podloom_engine::finding::{Finding, Findings};
use podloom_mutation::{NamespaceMetadata, PluginRun, PodMutator, Severity, remarks_of};
use podloom_mutators::Chain;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use self::browser::Configs;
use self::pod::Later;
use self::portal::Tunnels;
pub(crate) use self::report::unified;
use crate::ci::{Level, REMARK, Report};
use crate::cli::{Format, RenderArguments, RenderFormat};
use crate::error::{CommandError, Diagnostic, shown};
use crate::exceptions::Exceptions;
use crate::manifest::{Depth, Document, DocumentKind, Found, Step, Unknown};
use crate::mutator::{ChainMutator, ChainPanicked};
use crate::{explain, load, manifest, output};

/// What all objects of one render share.
pub(crate) struct Setting<'a> {
    pub(crate) mutator: ChainMutator,
    /// Calls of the chain are asynchronous, as in the operator.
    pub(crate) runtime: Runtime,
    pub(crate) namespaces: Namespaces,
    pub(crate) default_namespace: &'a str,
    pub(crate) later: Later,
}

impl<'a> Setting<'a> {
    fn of(
        chain: Option<Chain>,
        arguments: &'a RenderArguments,
        documents: &[Document],
    ) -> Result<Self, CommandError> {
        let namespace = arguments.namespace.as_str();
        Ok(Self {
            mutator: ChainMutator {
                exceptions: Some(Arc::new(Exceptions::of_documents(documents, namespace))),
                ..ChainMutator::of(chain)
            },
            runtime: Builder::new_current_thread()
                .enable_time()
                .build()
                .context("could not start the runtime that calls plugins")?,
            namespaces: Namespaces::of(documents),
            default_namespace: namespace,
            later: Later::read(
                arguments.before.as_deref(),
                arguments.ephemeral.as_deref(),
                namespace,
            )?,
        })
    }
}

/// What is wrong with the input.
#[derive(Default)]
pub(crate) struct Problems {
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl Problems {
    /// Adds findings about a document. If a field has an error already, `again` decides what becomes of that one.
    pub(crate) fn add(
        &mut self,
        document: &Document,
        findings: &Findings,
        again: fn(&mut Diagnostic, Diagnostic),
    ) {
        let known = self.errors.len();
        for finding in &findings.refusals {
            let error = diagnostic(document, finding, finding.text.clone());
            let earlier = self.errors.iter_mut().take(known);
            let earlier = earlier.filter(|it| it.place() == error.place());
            // The same words first.
            match earlier.min_by_key(|it| it.message != error.message) {
                Some(earlier) => again(earlier, error),
                None => self.errors.push(error),
            }
        }
        let warnings = findings.warnings.iter();
        let warnings = warnings.map(|it| diagnostic(document, it, it.text.clone()));
        self.warnings.extend(warnings);
    }

    /// Prints the warnings, and fails if there are errors. Warnings are errors if the user wants that.
    pub(crate) fn finish(
        mut self,
        is_strict: bool,
        failed: fn(Vec<Diagnostic>) -> CommandError,
    ) -> Result<(), CommandError> {
        if is_strict {
            self.errors.append(&mut self.warnings);
        }
        sort(&mut self.errors);
        self.warnings.iter().for_each(output::warn);
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(failed(self.errors)),
        }
    }
}

/// A document, and what became of it.
type Outcome<'a> = (&'a Document, Result<Rendered, ObjectError>);

/// Reads, checks, renders and prints. Prints no object if any of them has an error, and reports the errors of all.
pub(crate) fn run(arguments: &RenderArguments) -> Result<(), CommandError> {
    let mut inputs = arguments.files.iter().chain(&arguments.kustomizations);
    let chain = arguments.plugins.as_deref().map(load::manifest);
    let about = chain.or_else(|| inputs.next().cloned());
    let mut found = Report::new(about.unwrap_or_default());
    let done = read_and_print(arguments, &mut found);
    found.finish(arguments.output.report(), done)
}

fn read_and_print(arguments: &RenderArguments, ci: &mut Report) -> Result<(), CommandError> {
    let depth = Depth::of(arguments.recursive);
    let (files, kustomizations) = (&arguments.files, &arguments.kustomizations);
    pod::check_arguments(arguments)?;
    let mut found = manifest::find(files, kustomizations, depth)?;
    manifest::name_templates(&mut found.documents, &arguments.pod_templates);
    let given = found.documents.len();
    pod::add(&mut found, arguments, depth)?;
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
    let warned = remarks(&outcomes, Severity::Warning, &arguments.namespace);
    problems.warnings.extend(warned);
    if arguments.strict {
        problems.errors.append(&mut problems.warnings);
    }
    sort(&mut problems.errors);
    report(&outcomes, &problems, arguments)?;
    for outcome in &outcomes {
        ci.look_at(outcome.document.position(&[]), outcome.document.title());
    }
    let notes = remarks(&outcomes, Severity::Normal, &arguments.namespace);
    notes.iter().for_each(|it| ci.add(Level::Note, it));
    let warnings = problems.warnings.iter();
    warnings.for_each(|it| ci.add(Level::Warning, it));
    if problems.errors.is_empty() && arguments.output.report().is_none() {
        return print(outcomes, arguments);
    }
    if problems.errors.is_empty() {
        return Ok(());
    }
    Err(match arguments.output {
        RenderFormat::Json if arguments.explain => CommandError::Reported,
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
    let duplicates = duplicates(documents, namespace);
    let mut refused = checked.refused;
    let configs = Configs::of(documents, namespace, &mut refused, &mut problems.errors);
    problems.warnings.extend(configs.warnings(documents));
    problems
        .warnings
        .extend(browser::warnings(documents, &refused));
    let is_refused = |kind: &DocumentKind| {
        let mut documents = refused.iter().filter_map(|index| documents.get(*index));
        documents.any(|document| manifest::kind(document) == *kind)
    };
    let is_complete = found.errors.is_empty() && duplicates.is_empty();
    let renders_browsers = is_complete && !is_refused(&DocumentKind::BrowserConfig);
    let renders_tunnels = is_complete && !is_refused(&DocumentKind::TunnelClass);
    let renders = !is_refused(&DocumentKind::Namespace);
    let settings = arguments.tunnel.settings();
    let tunnels = Tunnels::of(documents, namespace, &refused, settings, problems);
    // None if some of what objects are rendered from has errors.
    let configs = Some(configs).filter(|_| renders_browsers);
    let tunnels = Some(tunnels).filter(|_| renders_tunnels);
    problems.errors.extend(duplicates);
    let chain = chain(arguments, problems)?;
    let (Some(chain), true) = (chain, renders) else {
        return Ok(Vec::new());
    };
    let setting = Setting::of(chain, arguments, documents)?;
    let given = documents.get(..given).unwrap_or(documents);
    if setting.mutator.writes_labels() {
        let unknown = given.iter().filter_map(manifest::unknown_owner);
        problems.warnings.extend(unknown);
    }
    Ok(given
        .iter()
        .enumerate()
        .filter(|(index, _)| !refused.contains(index))
        .filter_map(|(index, document)| {
            let needed = (configs.as_ref(), tunnels.as_ref());
            Some((document, render(index, document, needed, &setting)?))
        })
        .collect())
}

/// Loads the chain, if there is one. None if it has errors, which are added to the problems.
fn chain(
    arguments: &RenderArguments,
    problems: &mut Problems,
) -> Result<Option<Option<Chain>>, CommandError> {
    let Some(directory) = arguments.plugins.as_deref() else {
        return Ok(Some(None));
    };
    let bundle = load::bundle(directory);
    let compile = |bundle| load::compile_with_warnings(&load::engine()?, directory, &bundle);
    match bundle.and_then(compile) {
        Ok((chain, warnings)) => {
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

/// Renders a document that has no errors of its own; none if something that it is rendered from has.
fn render(
    index: usize,
    document: &Document,
    (configs, tunnels): (Option<&Configs>, Option<&Tunnels>),
    setting: &Setting<'_>,
) -> Option<Result<Rendered, ObjectError>> {
    Some(match manifest::kind(document) {
        DocumentKind::Browser => browser::render(document, configs?, setting),
        DocumentKind::PortalExpose => tunnels?.render(index, document, setting),
        DocumentKind::Pod => pod::render(document, setting),
        DocumentKind::Workload(template) => pod::render_templates(document, &[template], setting),
        DocumentKind::Named(templates) => pod::render_templates(document, &templates, setting),
        DocumentKind::BrowserConfig
        | DocumentKind::TunnelClass
        | DocumentKind::Namespace
        | DocumentKind::Infrastructure(_)
        | DocumentKind::Cleaner
        | DocumentKind::ChainException
        | DocumentKind::Other => Ok(Rendered::unchanged(document)),
    })
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
    if arguments.explain && arguments.output == RenderFormat::Json {
        let text = output::json_text(&report::of(outcomes, problems, &arguments.namespace))?;
        output::print_note(&text);
        return Ok(());
    }
    problems.warnings.iter().for_each(output::warn);
    if !arguments.explain {
        for note in remarks(outcomes, Severity::Normal, &arguments.namespace) {
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
        if !(arguments.explain && arguments.output == RenderFormat::Json) {
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
            .map(|(document, rendered)| report::diff(document, rendered))
            .collect::<anyhow::Result<_>>()?;
        if diffs.iter().all(String::is_empty) {
            note("no differences\n");
        }
        return output::print(&diffs.concat());
    }
    if arguments.output == RenderFormat::Json {
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
    shown(&pod::title(document, pass.template.as_deref(), namespace))
}

// What became of an object.

/// An object as it is printed, and what each plugin did to its pods.
pub(crate) struct Rendered {
    pub(crate) value: Value,
    /// The object before the chain, or what is printed instead of it. None if the object is printed as it was given.
    pub(crate) before: Option<Value>,
    /// One for each pod; none if the object holds no pod, or if there is no chain.
    pub(crate) passes: Vec<Pass>,
    /// What the user should know of the printed object.
    pub(crate) note: Option<String>,
}

/// One way of a pod through the chain.
pub(crate) struct Pass {
    /// The field with the pod template, if the object can have several.
    pub(crate) template: Option<String>,
    pub(crate) runs: Vec<PluginRun>,
}

impl Pass {
    /// The way of an object's only pod.
    pub(crate) fn of_pod(runs: Vec<PluginRun>) -> Self {
        Self {
            template: None,
            runs,
        }
    }
}

impl Rendered {
    /// An object that is only passed on.
    pub(crate) fn unchanged(document: &Document) -> Self {
        Self {
            value: document.value.clone(),
            before: None,
            passes: Vec::new(),
            note: None,
        }
    }

    /// Whether another object is printed in place of the document, such as the pod of a Browser.
    pub(crate) fn is_expanded(&self, document: &Document) -> bool {
        self.value.get("kind") != document.value.get("kind")
    }

    /// Whether anything else is printed than what was given.
    pub(crate) fn is_changed(&self, document: &Document) -> bool {
        let before = self.before.as_ref();
        self.is_expanded(document) || before.is_some_and(|before| *before != self.value)
    }

    /// Prints the document itself instead of another object in its place.
    pub(crate) fn keep_source(&mut self, document: &Document) {
        if self.is_expanded(document) {
            let passes = std::mem::take(&mut self.passes);
            *self = Self {
                passes,
                ..Self::unchanged(document)
            };
        }
    }

    /// The object as a YAML document.
    pub(crate) fn yaml(&self, document: &Document) -> anyhow::Result<String> {
        let written = match self.before {
            Some(_) => None,
            None => document.as_written(),
        };
        written.map_or_else(|| output::yaml(&self.value), Ok)
    }
}

/// Why an object could not be rendered.
pub(crate) enum ObjectError {
    /// The object is invalid, or a plugin rejected one of its pods.
    Invalid {
        diagnostics: Vec<Diagnostic>,
        /// What each plugin did, up to the one that rejected the pod; none if no plugin ran.
        passes: Vec<Pass>,
    },
    /// The chain panicked, which is a bug of Podloom.
    Panicked(ChainPanicked),
}

impl From<Diagnostic> for ObjectError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Invalid {
            diagnostics: vec![diagnostic],
            passes: Vec::new(),
        }
    }
}

impl From<ChainPanicked> for ObjectError {
    fn from(panicked: ChainPanicked) -> Self {
        Self::Panicked(panicked)
    }
}

// The labels and annotations of namespaces, which plugins can read.

/// Labels and annotations of the namespaces among the documents.
#[derive(Default)]
pub(crate) struct Namespaces(BTreeMap<String, NamespaceMetadata>);

impl Namespaces {
    pub(crate) fn of<D: Borrow<Document>>(documents: &[D]) -> Self {
        let namespaces = documents
            .iter()
            .map(Borrow::borrow)
            .filter(|document: &&Document| manifest::kind(document) == DocumentKind::Namespace)
            .map(|document| {
                let about = NamespaceMetadata::of(&document.value);
                (document.name().to_owned(), about)
            });
        Self(namespaces.collect())
    }

    /// Adds what a cluster says of a namespace.
    pub(crate) fn insert(&mut self, name: String, metadata: NamespaceMetadata) {
        self.0.insert(name, metadata);
    }

    /// Adds what is known of others.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A namespace that is not among the documents still has the label with its name, as in a cluster.
    pub(crate) fn get(&self, name: &str) -> NamespaceMetadata {
        self.0.get(name).cloned().unwrap_or_default().named(name)
    }
}

// What plugins say about pods, for those who do not ask for `--explain`.

/// How many different remarks of one severity are shown.
const SHOWN: usize = 50;

/// The remarks of one severity about all pods. Pods with the same remark share a message, at the place of the first.
fn remarks(outcomes: &[Settled<'_>], severity: Severity, namespace: &str) -> Vec<Diagnostic> {
    let mut indices = BTreeMap::new();
    let mut found: Vec<(Diagnostic, usize)> = Vec::new();
    for outcome in outcomes {
        for pass in &outcome.passes {
            for remark in remarks_of(&pass.runs, severity) {
                let index = *indices.entry(remark.clone()).or_insert(found.len());
                if let Some((_, others)) = found.get_mut(index) {
                    *others += 1;
                    continue;
                }
                let first = Diagnostic {
                    object: Some(title(outcome.document, pass, namespace)),
                    ..Diagnostic::at(outcome.document.position(&[]), remark)
                };
                found.push((first.of(&REMARK), 0));
            }
        }
    }
    let left_out = found.len().saturating_sub(SHOWN);
    let mut messages: Vec<Diagnostic> = found.into_iter().take(SHOWN).map(shared).collect();
    if left_out > 0 {
        let more = format!("{left_out} more remarks of plugins; --explain shows all");
        messages.push(Diagnostic::new(more));
    }
    messages
}

/// A message that so many other pods have, too.
fn shared((mut first, others): (Diagnostic, usize)) -> Diagnostic {
    let others = match others {
        0 => return first,
        more => format!(" and {}", explain::count(more, "more pod")),
    };
    first.object = first.object.map(|object| object + &others);
    first
}

// Finds duplicate objects: the API server would take the second for an update of the first.
//
// A Browser's pod has the Browser's name, so a Pod of that name in the same namespace is a duplicate too.

/// Finds duplicates among the objects of our kinds, and those that matter for pods.
pub(crate) fn duplicates<D: Borrow<Document>>(documents: &[D], namespace: &str) -> Vec<Diagnostic> {
    let mut seen: BTreeMap<(&str, &str, &str), &Document> = BTreeMap::new();
    let mut errors = Vec::new();
    for document in documents.iter().map(Borrow::borrow) {
        let home = match manifest::kind(document) {
            DocumentKind::Browser | DocumentKind::BrowserConfig | DocumentKind::PortalExpose => {
                document.namespace(namespace)
            }
            DocumentKind::Namespace | DocumentKind::TunnelClass => "",
            DocumentKind::Infrastructure(kind) if kind.is_global() => "",
            DocumentKind::Infrastructure(_) | DocumentKind::Cleaner => {
                document.namespace(namespace)
            }
            _ => continue,
        };
        if document.name().is_empty() {
            continue;
        }
        let key = (document.kind.as_str(), home, document.name());
        if let Some(first) = seen.insert(key, document) {
            let first = first.position(&[]);
            errors.push(document.diagnostic(
                &["metadata".into(), "name".into()],
                format!(
                    "duplicate: also defined at {}:{}, document {}; remove or rename one",
                    first.file, first.line, first.document
                ),
            ));
        }
    }
    errors.extend(pods_of_browsers(documents, namespace));
    errors
}

/// Finds Pods that have the name of a Browser's pod.
fn pods_of_browsers<'a, D: Borrow<Document>>(
    documents: &'a [D],
    namespace: &'a str,
) -> Vec<Diagnostic> {
    let of_kind = |kind: DocumentKind| {
        documents
            .iter()
            .map(Borrow::borrow)
            .filter(move |document: &&Document| manifest::kind(document) == kind)
            .map(move |document| ((document.namespace(namespace), document.name()), document))
    };
    let browsers: BTreeMap<(&str, &str), &Document> = of_kind(DocumentKind::Browser).collect();
    of_kind(DocumentKind::Pod)
        .filter_map(|(name, pod)| {
            let browser = browsers.get(&name)?.position(&[]);
            Some(pod.diagnostic(
                &["metadata".into(), "name".into()],
                format!(
                    "the pod of the Browser at {}:{}, document {}, has the same name; rename one",
                    browser.file, browser.line, browser.document
                ),
            ))
        })
        .collect()
}

// Documents as the types of their kinds, and findings about them.

/// A message at the field of a finding.
pub(crate) fn diagnostic(document: &Document, finding: &Finding, message: String) -> Diagnostic {
    let steps = finding.path.0.iter().map(|step| match step {
        podloom_engine::finding::Step::Key(key) => Step::Key(key.clone()),
        podloom_engine::finding::Step::Index(index) => Step::Index(*index),
    });
    document.diagnostic(&steps.collect::<Vec<_>>(), message)
}

/// Reads the document as its type. Its schema was checked, so this fails only for what a schema cannot express.
pub(crate) fn typed<T: DeserializeOwned>(document: &Document) -> Result<T, Diagnostic> {
    let mut value = document.value.clone();
    // The status is output of the operator, so it is ignored.
    if let Value::Object(fields) = &mut value {
        fields.remove("status");
    }
    serde_json::from_value(value).map_err(|error| document.diagnostic(&[], error.to_string()))
}

#[cfg(test)]
mod tests;
