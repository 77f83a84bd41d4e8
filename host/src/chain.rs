//! `podloom chain`: checks a chain before an operator loads it.

mod commute;
pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod export;
pub(crate) mod tighten;

use std::cell::RefCell;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use podloom_mutation::{PluginOutcome, PodRejection, PodRequest};
use podloom_mutators::{
    CHAIN, Chain, Denials, Plugin, SAMPLE_PODS, Signers, Takes, manifest_schema, sample_pods,
};
use serde_json::{Value, json};

use self::commute::Orders;
use crate::ci::{self, Level, ORDER, PLUGIN, Report};
use crate::cli::{CheckArguments, VerifyArguments};
use crate::error::{CommandError, Diagnostic, Position};
use crate::explain::{count, sheet};
use crate::output::{QUIET, TITLE, json_text, paint};
use crate::render::pod::Subject;
use crate::subjects::subjects;
use crate::{feed, load, manifest, output, source_age};

/// Loads and proves a chain, and prints what each plugin may do.
pub(crate) fn check(arguments: &CheckArguments) -> Result<(), CommandError> {
    let found = RefCell::new(Report::new(load::manifest(&arguments.directory)));
    let done = check_and_print(arguments, &found);
    found.into_inner().finish(arguments.output.report(), done)
}

fn check_and_print(
    arguments: &CheckArguments,
    found: &RefCell<Report>,
) -> Result<(), CommandError> {
    let directory = &arguments.directory;
    let warn = |it: &Diagnostic| {
        output::warn(it);
        found.borrow_mut().add(Level::Warning, it);
    };
    let bundle = load::bundle(directory)?;
    let (chain, warnings) = load::compile_with_warnings(&load::engine()?, directory, &bundle)?;
    look_at(directory, &chain, &mut found.borrow_mut());
    warnings.iter().for_each(warn);
    for plugin in chain.plugins() {
        if let Some(note) = source_age::note(&directory.join(&plugin.file)) {
            warn(&Diagnostic::new(note));
        }
    }
    let pods = Pods {
        files: &arguments.pods,
        corpus: arguments.corpus.as_deref(),
        namespace: &arguments.namespace,
        warn: &warn,
    };
    let mut orders = Orders::new(&chain);
    for (name, pod, request) in sample_pods() {
        orders.try_pod(&format!("sample pod {name}"), &pod, &request);
    }
    let mut denials = Denials::of(&chain);
    let tried = prove(
        directory,
        &chain,
        &pods,
        &mut |place, name, pod, request| {
            if let Some(place) = place {
                found.borrow_mut().look_at(place.clone(), name);
            }
            orders.try_pod(name, pod, request);
            denials.try_pod(pod, request);
        },
    )?;
    for warning in denials.warnings() {
        warn(&load::warning(directory, &warning));
    }
    for (line, message) in orders.differences() {
        let note = load::at(directory, line, message).of(&ORDER);
        found.borrow_mut().add(Level::Note, &note);
    }
    let webhook = match_conditions(&chain.takes())?;
    let text = describe(&chain, &(orders.describe() + &webhook), &tried);
    ci::print(arguments.output.report(), &text)?;
    if pods.are_none() {
        output::print_note(&paint(
            QUIET,
            "other pods may show more: try your own with --pods FILE or --corpus DIR\n",
        ));
    }
    Ok(())
}

/// Adds a chain and its plugins to what is looked at.
pub(crate) fn look_at(directory: &Path, chain: &Chain, found: &mut Report) {
    let at = |line| Position::of_line(load::manifest(directory), line);
    found.look_at(at(0), load::manifest(directory));
    for plugin in chain.plugins() {
        found.look_at(at(plugin.line), format!("plugin {}", plugin.name));
    }
}

/// Pods of the user's to try a chain on.
#[derive(Clone, Copy)]
pub(crate) struct Pods<'a> {
    /// The files with the pods; there may be none.
    pub(crate) files: &'a [String],
    /// A directory of recorded manifests.
    pub(crate) corpus: Option<&'a Path>,
    /// The namespace of objects without one.
    pub(crate) namespace: &'a str,
    /// What becomes of the warnings about files.
    pub(crate) warn: &'a dyn Fn(&Diagnostic),
}

impl Pods<'_> {
    pub(crate) const NONE: Self = Self {
        files: &[],
        corpus: None,
        namespace: "default",
        warn: &output::warn,
    };

    fn are_none(&self) -> bool {
        self.files.is_empty() && self.corpus.is_none()
    }
}

/// Runs the plugins on sample pods, and the chain on the pods of these files, with which something else is done too; says in a line what
/// was tried. It is an error if a plugin is not deterministic, or not idempotent though chain.yaml says so.
pub(crate) fn prove(
    directory: &Path,
    chain: &Chain,
    pods: &Pods<'_>,
    each: Each<'_>,
) -> Result<String, CommandError> {
    let line = |plugin: &Option<String>| {
        let found = chain.plugins().iter();
        let mut found = found.filter(|it| Some(&it.name) == plugin.as_ref());
        found.next().map_or(0, |it| it.line)
    };
    let failures = chain.prove().into_iter();
    let errors: Vec<Diagnostic> = failures
        .map(|it| load::at(directory, line(&it.plugin), it.message).of(&PLUGIN))
        .collect();
    if !errors.is_empty() {
        return Err(CommandError::Invalid(errors));
    }
    let own = match pods.are_none() {
        true => String::new(),
        false => format!(" and {}", try_pods(chain, pods, each)?),
    };
    let plugins = count(chain.plugins().len(), "plugin");
    Ok(format!(
        "{plugins}: deterministic, and idempotent where required, on {SAMPLE_PODS} sample pods{own}"
    ))
}

/// Prints the JSON Schema of the manifest.
pub(crate) fn schema() -> Result<(), CommandError> {
    output::print(&json_text(&manifest_schema())?)
}

/// Describes the plugins, what follows from all of them, and what was tried.
fn describe(chain: &Chain, follows: &str, tried: &str) -> String {
    let mut text = String::new();
    for (number, plugin) in (1..).zip(chain.plugins()) {
        text.push_str(&describe_plugin(number, plugin));
    }
    let _infallible = writeln!(text, "{follows}{tried}\nchain {}", chain.digest());
    text
}

/// Kubernetes reads no longer expression.
const LONGEST_EXPRESSION: usize = 100_000;

/// How to keep pods that no plugin takes away from the webhook.
fn match_conditions(takes: &Takes) -> Result<String, CommandError> {
    let expression = match takes {
        Takes::Each(plugin) => {
            let why = format!("the webhook needs every pod, since {plugin} may take each\n");
            return Ok(paint(QUIET, &why));
        }
        Takes::Some(expression) if expression.len() > LONGEST_EXPRESSION => {
            let why = "the webhook needs every pod, since `match` is too long for a condition\n";
            return Ok(paint(QUIET, why));
        }
        Takes::Some(expression) => expression,
    };
    let title = "what keeps pods that no plugin takes from the webhook pods.podloom.dev";
    let condition = json!({ "name": CHAIN, "expression": expression });
    let yaml = output::yaml(&json!({ "matchConditions": [condition] }))?;
    Ok(format!("{}\n{yaml}", paint(TITLE, title)))
}

fn describe_plugin(number: usize, plugin: &Plugin) -> String {
    let description = &plugin.description;
    let title = format!("{number}. {} {}", plugin.name, description.version);
    let file = format!("{} ({})", plugin.file, size(plugin.shipped_bytes()));
    let (memory, timeout) = (size(plugin.limits.memory), plugin.limits.timeout);
    let limits = format!("{memory} of memory, {} ms a call", timeout.as_millis());
    let idempotent = if plugin.idempotent { "yes" } else { "no" };
    let rows = [
        ("file", file),
        ("sha256", plugin.sha256.clone()),
        ("may write", paths(&plugin.allow)),
        ("needs to write", paths(&description.writes)),
        ("may read", paths(&readable(plugin))),
        ("needs to read", paths(&description.reads)),
        ("match", matches(plugin)),
        ("namespaces", needs_namespaces(plugin).to_owned()),
        ("failurePolicy", plugin.failure_policy.as_str().to_owned()),
        ("idempotent", idempotent.to_owned()),
        ("limits", limits),
    ];
    sheet(&title, &description.summary, &rows)
}

/// What a plugin may read: the granted `read` paths, and all `allow` paths.
fn readable(plugin: &Plugin) -> Vec<String> {
    let mut paths = plugin.read.clone();
    let others = plugin
        .allow
        .iter()
        .filter(|path| !plugin.read.contains(path));
    paths.extend(others.cloned());
    paths
}

/// Which pods a plugin is called for, in one line.
fn matches(plugin: &Plugin) -> String {
    match plugin.matches() {
        Value::Object(fields) if !fields.is_empty() => Value::Object(fields).to_string(),
        _ => "every pod".to_owned(),
    }
}

/// Whether the plugin needs to know more of a namespace than its name.
fn needs_namespaces(plugin: &Plugin) -> &'static str {
    match plugin.needs_namespaces() {
        true => {
            "needs their labels or annotations, so the operator must be allowed to list and watch namespaces"
        }
        false => "asked for none of their labels and annotations",
    }
}

/// One path per line, aligned as a column.
pub(crate) fn paths(paths: &[String]) -> String {
    let shown: Vec<&str> = paths
        .iter()
        .map(|path| podloom_pod_path::shown(path))
        .collect();
    match shown.as_slice() {
        [] => "nothing".to_owned(),
        shown => shown.join(&format!("\n   {:<14} ", "")),
    }
}

/// A size in bytes, KiB or MiB.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}

// Tries a chain on pods of the user's, besides the sample pods.

/// What else is done with each pod, with its place, its name and its request.
pub(crate) type Each<'a> = &'a mut dyn FnMut(Option<&Position>, &str, &Value, &Arc<PodRequest>);

/// Runs the chain on each pod of these files, twice, and again on its own result. Says what was tried.
fn try_pods(chain: &Chain, pods: &Pods<'_>, each: Each<'_>) -> Result<String, CommandError> {
    let (mut tried, mut denied, mut errors) = (0, 0, Vec::new());
    let mut try_one = |place: Option<Position>, name: String, subject: Subject| {
        let request = Arc::new(subject.request);
        each(place.as_ref(), &name, &subject.pod, &request);
        tried += 1;
        match check_pod(chain, &subject.pod, &request) {
            // A valid outcome; reported, since it may surprise.
            Ok(is_denied) => denied += usize::from(is_denied),
            Err(message) => errors.push(Diagnostic {
                position: place,
                object: Some(name),
                ..Diagnostic::new(message).of(&PLUGIN)
            }),
        }
    };
    if !pods.files.is_empty() {
        let documents = manifest::read(pods.files)?;
        let found = subjects(&documents, pods.namespace, &mut |it| (pods.warn)(it))?;
        for (document, subject) in found {
            try_one(Some(document.position(&[])), document.title(), subject);
        }
    }
    if let Some(directory) = pods.corpus {
        let mut is_empty = true;
        for pod in feed::corpus(directory, pods.namespace)? {
            let found = pod?;
            is_empty = false;
            try_one(found.place, found.name, found.subject);
        }
        if is_empty {
            return Err(feed::no_pod(&[]));
        }
    }
    if !errors.is_empty() {
        return Err(CommandError::CheckFailed(errors));
    }
    let own = format!("{} of yours", count(tried, "pod"));
    Ok(match denied {
        0 => own,
        denied => format!("{own}, {denied} of them denied"),
    })
}

/// Whether the chain denies a pod, or what is wrong with the chain.
fn check_pod(chain: &Chain, pod: &Value, request: &Arc<PodRequest>) -> Result<bool, String> {
    let run = |pod: &Value| chain.mutate(pod.clone(), Arc::clone(request));
    let result = match (run(pod), run(pod)) {
        (Ok(once), Ok(again)) if once.pod == again.pod => once,
        (Err(once), Err(again)) if once.rejection == again.rejection => {
            return match once.rejection {
                PodRejection::Denied(_) => Ok(true),
                _ => Err(once.to_string()),
            };
        }
        _ => {
            let message =
                "the chain is not deterministic: two runs on this pod gave different results";
            return Err(message.to_owned());
        }
    };
    for run in &result.runs {
        if let PluginOutcome::Ignored(failure) = &run.outcome {
            return Err(format!("plugin {} failed: {failure}", run.plugin));
        }
    }
    // As for the sample pods: one plugin that may write again makes the whole chain write again.
    if chain.plugins().iter().any(|plugin| !plugin.idempotent) {
        return Ok(false);
    }
    let again = run(&result.pod);
    let again =
        again.map_err(|rejected| format!("the chain rejects its own result: {rejected}"))?;
    let writes = again.runs.iter().flat_map(|run| {
        let named = run.writes.iter();
        named.map(|write| format!("{} ({})", write.path, run.plugin))
    });
    let writes: Vec<String> = writes.collect();
    match writes.is_empty() {
        true => Ok(false),
        false => Err(format!(
            "the chain is not idempotent: run again on its own result it makes {}: {}",
            count(writes.len(), "write"),
            writes.join(", ")
        )),
    }
}

// `podloom chain verify`: checks the signature of a chain.

/// Checks the signature, and prints who signed what.
pub(crate) fn verify(arguments: &VerifyArguments) -> Result<(), CommandError> {
    let directory = &arguments.directory;
    let signers: Signers = arguments.keys.iter().cloned().collect();
    let bundle = load::bundle(directory)?;
    let signer = signers
        .check(&bundle)
        .map_err(|error| CommandError::invalid(format!("{}: {error}", directory.display())))?;
    let files: Vec<&str> = bundle.files().map(|(name, _)| name).collect();
    let mut text = format!("signed by the key {}\n", signer.fingerprint);
    let _infallible = writeln!(
        text,
        "covers chain.yaml and {}{}{}",
        count(files.len(), "file"),
        if files.is_empty() { "" } else { ": " },
        files.join(", ")
    );
    output::print(&text)
}

#[cfg(test)]
mod tests;
