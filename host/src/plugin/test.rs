//! `podloom plugin test`: runs a plugin on pods, with the rights that it asks for or with those that a chain grants.

mod report;
mod trial;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use podloom_mutation::{PluginOutcome, PodRejection};
use podloom_mutators::{Bundle, BundleError, Chain, Engine, MANIFEST, inspect};
use serde_json::{Map, Value, json};

use self::report::Golden;
use self::trial::Trial;
use super::build::{self, BUNDLE, OldSchema};
use super::inspect::{ConfigFile, unusable};
use crate::chain::Pods;
use crate::ci::{self, Level, PLUGIN, REJECTED, Report};
use crate::cli::TestArguments;
use crate::error::{CommandError, Diagnostic, Position};
use crate::explain::count;
use crate::feed::FoundPod;
use crate::manifest::{Document, DocumentKind};
use crate::output::{QUIET, paint};
use crate::render::pod::{Later, Subject, check_stdin};
use crate::subjects::subjects;
use crate::{chain, feed, load, manifest, output, source_age};

/// The result for a file of pods.
#[derive(Default)]
struct Tried {
    /// Each pod with its title. If the plugin rejected it, the reason is among the errors.
    pods: Vec<(String, TrialOutcome)>,
    golden: Option<(String, Golden)>,
    errors: Vec<Diagnostic>,
}

enum TrialOutcome {
    Ran(Box<Trial>),
    /// The golden file may expect this; otherwise it is among the errors.
    Denied(String),
    Failed,
}

/// Runs the plugin on each pod and prints what it did. In a crate, builds the plugin first, and tries the bundle's chain at the end.
pub(crate) fn run(arguments: &TestArguments) -> Result<(), CommandError> {
    let crate_of_plugin = directory(arguments);
    let bundle = crate_of_plugin
        .as_ref()
        .map(|it| build::in_crate(it, BUNDLE));
    let about = match (
        arguments.chain.as_ref().or(bundle.as_ref()),
        &arguments.plugin,
    ) {
        (Some(chain), _) if !chain.is_file() => load::manifest(chain),
        (Some(file), _) | (None, Some(file)) => file.display().to_string(),
        (None, None) => String::new(),
    };
    let mut found = Report::new(about);
    let done = match crate_of_plugin {
        Some(directory) => test_crate(&directory, arguments, &mut found),
        None => {
            let file = arguments.plugin.clone().unwrap_or_default();
            if let Some(note) = source_age::note(&file) {
                warn(&mut found, &Diagnostic::new(note));
            }
            check(arguments, &file, &mut found)
        }
    };
    found.finish(arguments.output.report(), done)
}

fn test_crate(
    directory: &Path,
    arguments: &TestArguments,
    found: &mut Report,
) -> Result<(), CommandError> {
    let (file, arguments) = build_crate(directory, arguments)?;
    check(&arguments, &file, found)?;
    try_chain(&arguments, found)
}

/// Prints a warning, and adds it to what was found.
fn warn(found: &mut Report, warning: &Diagnostic) {
    output::warn(warning);
    found.add(Level::Warning, warning);
}

fn check(arguments: &TestArguments, plugin: &Path, found: &mut Report) -> Result<(), CommandError> {
    if arguments.update && arguments.golden.is_none() && arguments.cases.is_none() {
        let message = "--update needs a golden file to write: name one with --golden, or a directory of cases with --cases";
        return Err(CommandError::Usage(message.to_owned()));
    }
    let mut bench = Bench {
        engine: load::engine_as_in_operator()?,
        name: plugin.display().to_string(),
        file: load::file(plugin)?,
        entry: arguments
            .chain
            .as_deref()
            .map(|chain| find(chain, plugin, arguments.entry.as_deref()))
            .transpose()?,
        allow: arguments.allow.clone(),
        config: arguments
            .config
            .as_deref()
            .map(ConfigFile::read)
            .transpose()?,
        is_idempotent: !arguments.not_idempotent,
        last: None,
        warnings: Vec::new(),
    };
    let mut errors = match (&arguments.cases, &arguments.pod) {
        (Some(directory), _) => try_cases(&mut bench, directory, arguments, found)?,
        (None, Some(pod)) => {
            let (before, ephemeral) = (arguments.before.as_deref(), arguments.ephemeral.as_deref());
            let is_stdin = |file: Option<&str>| file == Some("-");
            check_stdin(&[
                ("--pod", pod == "-"),
                ("--before", is_stdin(before)),
                ("--ephemeral", is_stdin(ephemeral)),
            ])?;
            let later = Later::read(before, ephemeral, &arguments.namespace)?;
            let chain = bench.chain(None, &later)?;
            let golden = arguments.golden.as_deref();
            let tried = try_file(chain, (pod, &later), (golden, arguments), found)?;
            ci::print(arguments.output.report(), &report::file(chain, &tried))?;
            tried.errors
        }
        (None, None) if arguments.corpus.is_some() => Vec::new(),
        (None, None) => {
            return Err(CommandError::Usage(
                "no pods: name a file with --pod, a directory of cases with --cases, or recorded pods with --corpus; in a plugin's crate, \
                 `podloom plugin test` without a file finds its cases itself"
                    .to_owned(),
            ));
        }
    };
    if let Some(directory) = &arguments.corpus {
        let chain = bench.chain(None, &Later::New)?;
        errors.extend(try_all(chain, directory, arguments, found)?);
    }
    let warnings = bench.warnings.iter();
    warnings.for_each(|it| found.add(Level::Warning, it));
    match errors.is_empty() {
        true => Ok(()),
        false => Err(CommandError::CheckFailed(errors)),
    }
}

/// Runs all cases, even if one is invalid.
fn try_cases(
    bench: &mut Bench,
    directory: &Path,
    arguments: &TestArguments,
    found: &mut Report,
) -> Result<Vec<Diagnostic>, CommandError> {
    let mut errors = Vec::new();
    let cases = cases_of(directory)?;
    let width = cases.iter().map(|case| case.name.chars().count()).max();
    for case in cases {
        let tried = match try_case(bench, &case, arguments, found) {
            Err(CommandError::Invalid(errors)) => Tried {
                errors,
                ..Tried::default()
            },
            tried => tried?,
        };
        let text = report::case(&case.name, width.unwrap_or_default(), &tried);
        ci::print(arguments.output.report(), &text)?;
        errors.extend(tried.errors);
    }
    Ok(errors)
}

fn try_case(
    bench: &mut Bench,
    case: &Case,
    arguments: &TestArguments,
    found: &mut Report,
) -> Result<Tried, CommandError> {
    let config = case.config.as_deref().map(ConfigFile::read).transpose()?;
    let shown = |path: &PathBuf| path.display().to_string();
    let [before, ephemeral] = [&case.before, &case.ephemeral].map(|it| it.as_ref().map(shown));
    if let (Some(before), Some(ephemeral)) = (&before, &ephemeral) {
        return Err(CommandError::invalid(format!(
            "{before} and {ephemeral}: keep one of them: a change either adds ephemeral containers or is another one"
        )));
    }
    let (before, ephemeral) = (before.as_deref(), ephemeral.as_deref());
    let later = Later::read(before, ephemeral, &arguments.namespace)?;
    let chain = bench.chain(config.as_ref(), &later)?;
    let pod = (&*shown(&case.pod), &later);
    try_file(chain, pod, (Some(&case.golden), arguments), found)
}

/// Runs a chain of one plugin on each pod of a file, or on what changes in it, and compares the results with the golden file.
fn try_file(
    chain: &Chain,
    (file, later): (&str, &Later),
    (golden, arguments): (Option<&Path>, &TestArguments),
    report: &mut Report,
) -> Result<Tried, CommandError> {
    let documents = manifest::read(&[file.to_owned()])?;
    let mut tried = Tried::default();
    let mut texts = Vec::new();
    let found = subjects(&documents, &arguments.namespace, &mut |it| warn(report, it))?;
    for (document, subject) in found {
        report.look_at(document.position(&[]), document.title());
        let subject = match changed(document, subject, later) {
            Ok(subject) => subject,
            Err(message) => {
                tried.errors.push(document.diagnostic(&[], message));
                tried.pods.push((document.title(), TrialOutcome::Failed));
                continue;
            }
        };
        let outcome = match trial::of(chain, &subject) {
            Ok(trial) => {
                let broken = chain.plugins().iter();
                let broken = broken.flat_map(|plugin| trial.violations(plugin, &subject));
                tried
                    .errors
                    .extend(broken.map(|message| document.diagnostic(&[], message).of(&PLUGIN)));
                texts.push(report::text_of(&trial.pod, &subject.pod)?);
                TrialOutcome::Ran(Box::new(trial))
            }
            Err(rejected) => match rejected.runs.last().map(|run| &run.outcome) {
                Some(PluginOutcome::Denied(reason)) if golden.is_some() => {
                    texts.push(report::text_of_denial(reason));
                    TrialOutcome::Denied(reason.clone())
                }
                _ => {
                    let diagnostic = document.diagnostic(&[], rejected.to_string());
                    tried.errors.push(diagnostic.of(&REJECTED));
                    TrialOutcome::Failed
                }
            },
        };
        tried.pods.push((document.title(), outcome));
    }
    // The golden file is compared only if all pods have a result.
    if let Some(path) = golden.filter(|_| texts.len() == tried.pods.len()) {
        let found = report::compare(path, &texts.join("---\n"), arguments.update)?;
        let shown = path.display().to_string();
        report.look_at(Position::of_line(&*shown, 0), shown.clone());
        tried.errors.extend(found.diagnostic(&shown));
        tried.golden = Some((shown, found));
    }
    Ok(tried)
}

/// A pod with what changes in it; an error says why nothing does. Templates make new pods.
fn changed(document: &Document, subject: Subject, later: &Later) -> Result<Subject, &'static str> {
    if manifest::kind(document) != DocumentKind::Pod {
        return Ok(subject);
    }
    let Subject { pod, request } = subject;
    if !later.has_before(&request) {
        return Err(
            "the file of the pods before has none of this namespace and name: give both the same",
        );
    }
    let changed = later.apply(pod, request);
    let (pod, request) = changed.ok_or(
        "it differs in nothing that may change in a pod that exists: images, tolerations, resources, ephemeral containers",
    )?;
    Ok(Subject { pod, request })
}

// Cases in a directory: NAME.pod.yaml, NAME.golden.yaml, and optionally NAME.config.yaml, and NAME.before.yaml or NAME.ephemeral.yaml.

const POD: &str = ".pod.yaml";
const CONFIG: &str = ".config.yaml";
const BEFORE: &str = ".before.yaml";
const EPHEMERAL: &str = ".ephemeral.yaml";
const GOLDEN: &str = ".golden.yaml";

/// One case.
struct Case {
    name: String,
    pod: PathBuf,
    config: Option<PathBuf>,
    before: Option<PathBuf>,
    ephemeral: Option<PathBuf>,
    golden: PathBuf,
}

/// The cases of a directory, by name. A configuration or golden file without a pod file is an error: its name must be misspelt.
fn cases_of(directory: &Path) -> Result<Vec<Case>, CommandError> {
    let shown = directory.display();
    if !directory.is_dir() {
        return Err(CommandError::invalid(format!("{shown}: no such directory")));
    }
    let files = files(directory).with_context(|| shown.to_string())?;
    let mut errors = Vec::new();
    for file in &files {
        let name = [CONFIG, BEFORE, EPHEMERAL, GOLDEN]
            .iter()
            .find_map(|end| file.strip_suffix(end));
        if let Some(name) = name.filter(|name| !files.contains(&format!("{name}{POD}"))) {
            errors.push(Diagnostic::new(format!(
                "{shown}/{file} belongs to no case: add {name}{POD}, or rename the file"
            )));
        }
    }
    let beside = |name: &str, end: &str| {
        let file = format!("{name}{end}");
        files.contains(&file).then(|| directory.join(file))
    };
    let cases: Vec<Case> = files
        .iter()
        .filter_map(|file| file.strip_suffix(POD))
        .map(|name| Case {
            name: name.to_owned(),
            pod: directory.join(format!("{name}{POD}")),
            config: beside(name, CONFIG),
            before: beside(name, BEFORE),
            ephemeral: beside(name, EPHEMERAL),
            golden: directory.join(format!("{name}{GOLDEN}")),
        })
        .collect();
    if cases.is_empty() {
        errors.push(Diagnostic::new(format!(
            "{shown} has no cases: name the file of a pod NAME{POD}"
        )));
    }
    match errors.is_empty() {
        true => Ok(cases),
        false => Err(CommandError::Invalid(errors)),
    }
}

fn files(directory: &Path) -> std::io::Result<BTreeSet<String>> {
    let entries = fs::read_dir(directory)?;
    entries
        .filter_map(|entry| match entry {
            // A name that is not UTF-8 is not a case's file.
            Ok(entry) => entry.file_name().into_string().ok().map(Ok),
            Err(error) => Some(Err(error)),
        })
        .collect()
}

// Tests the plugin of a crate: builds it, and runs its bundle's chain on its cases.

/// The directory with the cases of a crate that `podloom plugin new` created.
const CASES: &str = "cases";

/// The directory of the crate to test; none if a plugin's file is named.
fn directory(arguments: &TestArguments) -> Option<PathBuf> {
    match &arguments.plugin {
        None => Some(PathBuf::from(".")),
        Some(path) if path.is_dir() => Some(path.clone()),
        Some(_) => None,
    }
}

/// Builds the plugin of a crate into its bundle. Returns the plugin's file, and the arguments with the crate's bundle and cases
/// in place of those that are not given.
fn build_crate(
    directory: &Path,
    arguments: &TestArguments,
) -> Result<(PathBuf, TestArguments), CommandError> {
    let bundle = build::in_crate(directory, BUNDLE);
    let old = match arguments.update {
        true => OldSchema::Write,
        false => OldSchema::Refuse,
    };
    let (file, found) = build::build(directory, &bundle, old)?;
    let size = chain::size(found.shipped_bytes);
    let line = format!("built {}, {size}\n", file.display());
    ci::print(arguments.output.report(), &paint(QUIET, &line))?;
    output::print_note(&build::advice(&bundle, &found));
    let mut arguments = arguments.clone();
    if arguments.chain.is_none() && arguments.allow.is_empty() {
        arguments.chain = Some(bundle);
    }
    if arguments.cases.is_none() && arguments.pod.is_none() {
        arguments.cases = Some(build::in_crate(directory, CASES));
    }
    Ok((file, arguments))
}

/// Loads the whole bundle as an operator does, and tries its chain on the cases.
fn try_chain(arguments: &TestArguments, found: &mut Report) -> Result<(), CommandError> {
    let Some(bundle) = arguments.chain.as_deref().filter(|chain| chain.is_dir()) else {
        return Ok(());
    };
    let mut pods: Vec<String> = arguments.pod.iter().cloned().collect();
    if let Some(directory) = &arguments.cases {
        let cases = cases_of(directory)?;
        let new = cases
            .iter()
            .filter(|case| case.before.is_none() && case.ephemeral.is_none());
        pods.extend(new.map(|case| case.pod.display().to_string()));
    }
    // Standard input was read to its end before.
    pods.retain(|pod| pod != "-");
    let (engine, read) = (load::engine()?, load::bundle(bundle)?);
    let (loaded, warnings) = load::compile_with_warnings(&engine, bundle, &read)?;
    chain::look_at(bundle, &loaded, found);
    warnings.iter().for_each(|it| warn(found, it));
    // The cases' warnings were printed when the plugin alone was tried on them.
    let pods = Pods {
        files: &pods,
        corpus: arguments.corpus.as_deref(),
        namespace: &arguments.namespace,
        warn: &|_| {},
    };
    let tried = chain::prove(bundle, &loaded, &pods, &mut |_, _, _, _| {})?;
    let text = format!("chain {}: {tried}\n", bundle.display());
    ci::print(arguments.output.report(), &text)
}

// Finds a plugin's entry in an existing chain.yaml.

/// Fields that are ignored here: the plugin always runs, a failure is an error, and the tested file may be newer than the pinned one.
const IGNORED: [&str; 3] = ["match", "failurePolicy", "sha256"];

/// Finds the entry of this name, or else the only one with this plugin's file.
fn find(chain: &Path, file: &Path, name: Option<&str>) -> Result<Map<String, Value>, CommandError> {
    let path = if chain.is_dir() {
        chain.join(MANIFEST)
    } else {
        chain.to_owned()
    };
    let shown = path.display().to_string();
    check_manifest(&path, &shown)?;
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    let wanted = name.map_or_else(
        || format!("plugin with the file {file}"),
        |name| format!("plugin {name}"),
    );
    let documents = manifest::read_values(&shown)?;
    let text = |entry: &Map<String, Value>, key: &str| {
        let text = entry.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let mut found = entries(&documents).filter(|entry| match name {
        Some(name) => text(entry, "name") == name,
        None => text(entry, "file") == file,
    });
    match (found.next(), found.next()) {
        (Some(entry), None) => {
            let mut entry = entry.clone();
            entry.retain(|key, _| !IGNORED.contains(&key.as_str()));
            Ok(entry)
        }
        (Some(_), Some(_)) => Err(CommandError::Usage(format!(
            "{shown} has several entries for {wanted}; choose one with --entry NAME"
        ))),
        (None, _) => {
            let names = entries(&documents).map(|entry| text(entry, "name"));
            Err(CommandError::invalid(format!(
                "{shown} has no {wanted}; choose one of its plugins with --entry NAME: {}",
                names.collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

/// Checks the manifest as the loader does, but without the plugin files.
fn check_manifest(path: &Path, shown: &str) -> Result<(), CommandError> {
    let text = String::from_utf8(load::file(path)?)
        .map_err(|_| CommandError::invalid(format!("{shown}: not UTF-8 text")))?;
    match Bundle::from_parts(&text, []) {
        Err(BundleError::Manifest { problem, .. }) => {
            Err(CommandError::invalid(format!("{shown}: {problem}")))
        }
        _ => Ok(()),
    }
}

fn entries(documents: &[Value]) -> impl Iterator<Item = &Map<String, Value>> {
    let chains = documents.iter().filter_map(|chain| chain.get("plugins"));
    let entries = chains.filter_map(Value::as_array).flatten();
    entries.filter_map(Value::as_object)
}

// Runs a plugin on the pods of a corpus, of which only the count and the violations are shown.

/// Runs a chain of one plugin on each pod, prints in a line how it did, and returns what is wrong.
fn try_all(
    chain: &Chain,
    directory: &Path,
    arguments: &TestArguments,
    report: &mut Report,
) -> Result<Vec<Diagnostic>, CommandError> {
    let (mut pods, mut changed, mut denied, mut errors) = (0_usize, 0, 0, Vec::new());
    for pod in feed::corpus(directory, &arguments.namespace)? {
        let FoundPod {
            name,
            place,
            subject,
            ..
        } = pod?;
        pods += 1;
        if let Some(place) = &place {
            report.look_at(place.clone(), &*name);
        }
        let broken = |message: String| Diagnostic {
            position: place.clone(),
            object: Some(name.clone()),
            ..Diagnostic::new(message).of(&PLUGIN)
        };
        match trial::of(chain, &subject) {
            Ok(trial) => {
                changed += usize::from(trial.run.outcome == PluginOutcome::Mutated);
                let plugins = chain.plugins().iter();
                let found = plugins.flat_map(|plugin| trial.violations(plugin, &subject));
                errors.extend(found.map(broken));
            }
            Err(rejected) => match rejected.rejection {
                // A valid outcome.
                PodRejection::Denied(_) => denied += 1,
                _ => errors.push(broken(rejected.to_string())),
            },
        }
    }
    if pods == 0 {
        return Err(feed::no_pod(&[]));
    }
    let broken = match errors.len() {
        0 => String::new(),
        many => format!(", {}", count(many, "error")),
    };
    let text = format!(
        "corpus {}: {}, {changed} changed, {denied} denied{broken}\n",
        directory.display(),
        count(pods, "pod"),
    );
    ci::print(arguments.output.report(), &text)?;
    Ok(errors)
}

// Puts a plugin into a chain of its own.

/// The name of the plugin's file in that chain.
const FILE: &str = "plugin.wasm";

/// The plugin under test, and how it is set up.
struct Bench {
    engine: Arc<Engine>,
    /// The plugin's file as the user named it.
    name: String,
    file: Vec<u8>,
    /// The entry of a chain whose rights it gets.
    entry: Option<Map<String, Value>>,
    /// Without an entry: the paths that it may write; if there are none, exactly those that it asks for.
    allow: Vec<String>,
    /// The configuration for cases that have none of their own.
    config: Option<ConfigFile>,
    is_idempotent: bool,
    /// The last chain, so that the next one can reuse the compiled plugin.
    last: Option<Chain>,
    /// About the plugin with its rights.
    warnings: Vec<Diagnostic>,
}

impl Bench {
    /// A chain with only this plugin, and with the configuration of the case if it has one. It takes changes of pods that exist only if
    /// there are some.
    fn chain(
        &mut self,
        config: Option<&ConfigFile>,
        later: &Later,
    ) -> Result<&Chain, CommandError> {
        let config = config.or(self.config.as_ref());
        let bundle = self.bundle(config, later)?;
        let loaded = match &self.last {
            Some(earlier) => Chain::load_after(earlier, &bundle),
            None => Chain::load(&self.engine, &bundle),
        };
        let chain = loaded.map_err(|error| unusable(&self.name, error.problem, config))?;
        if self.last.is_none() {
            let warnings = chain.warnings().into_iter();
            let warnings = warnings.map(|it| format!("{}: {}", self.name, it.message));
            self.warnings = warnings.map(Diagnostic::new).collect();
            self.warnings.iter().for_each(output::warn);
        }
        Ok(self.last.insert(chain))
    }

    fn bundle(&self, config: Option<&ConfigFile>, later: &Later) -> Result<Bundle, CommandError> {
        let mut entry = match &self.entry {
            Some(entry) => entry.clone(),
            None => self.own_entry(config)?,
        };
        entry.insert("file".to_owned(), FILE.into());
        if let Some(config) = config {
            entry.insert("config".to_owned(), config.fields.clone().into());
        }
        if !matches!(later, Later::New) {
            let operations = json!({ "operations": ["CREATE", "UPDATE"] });
            entry.insert("match".to_owned(), operations);
        }
        if !self.is_idempotent {
            entry.insert("idempotent".to_owned(), false.into());
        }
        let manifest = json!({
            "apiVersion": "podloom.dev/v1alpha1",
            "kind": "MutatorChain",
            "plugins": [entry],
        });
        Bundle::from_parts(
            &manifest.to_string(),
            [(FILE.to_owned(), self.file.clone())],
        )
        .map_err(|error| CommandError::Other(anyhow::Error::new(error)))
    }

    /// An entry that grants what the plugin asks for, or the given paths instead of the writes that it asks for.
    fn own_entry(&self, config: Option<&ConfigFile>) -> Result<Map<String, Value>, CommandError> {
        let fields = config.map(|config| config.fields.clone());
        let found = inspect(&self.engine, &self.file, Some(&fields.unwrap_or_default()))
            .map_err(|error| unusable(&self.name, error, config))?;
        let about = found.description;
        let writes = match self.allow.is_empty() {
            true => about.writes,
            false => self.allow.clone(),
        };
        let fields = [
            ("name", about.name.into()),
            ("allow", writes.into()),
            ("read", about.reads.into()),
        ];
        let fields = fields
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        Ok(fields.collect())
    }
}
