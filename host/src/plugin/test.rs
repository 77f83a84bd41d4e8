//! `podloom plugin test`: a plugin on a pod, with exactly the grants that it asks for.

use std::fmt::Write;
use std::time::Duration;

use podloom_mutators::{Bundle, Chain, Inspection, Mutation, PluginRun, inspect};
use podloom_pod_path::Grants;
use serde_json::{Map, Value, json};

use crate::cli::TestArguments;
use crate::manifest::{self, Depth, Document, Kind};
use crate::output::{ERROR, TITLE, paint};
use crate::refusal::{Failure, Refusal};
use crate::render::Namespaces;
use crate::render::pod::{Subject, subject};
use crate::{explain, load, output};

/// How often a call is timed; odd, so that one of them is the median.
const CALLS: usize = 21;

/// The plugin's file in its bundle of one.
const FILE: &str = "plugin.wasm";

/// What was seen of a plugin on one pod.
struct Trial {
    run: PluginRun,
    deterministic: bool,
    /// What a second run over its own result wrote, or why that was rejected.
    again: Result<Vec<String>, String>,
    median: Duration,
}

/// Runs the plugin on each pod of the file and tells what it did.
pub(crate) fn run(arguments: &TestArguments) -> Result<(), Failure> {
    let file = load::file(&arguments.file)?;
    let config = arguments.config.as_deref().map(load::config).transpose()?;
    let documents = manifest::read(std::slice::from_ref(&arguments.pod), Depth::Flat)?;
    let subjects = subjects(&documents, &arguments.namespace)?;
    let name = arguments.file.display().to_string();
    let config = config.unwrap_or_default();
    let engine = load::engine()?;
    let found = inspect(&engine, &file, Some(&config))
        .map_err(|error| Failure::refused(format!("{name}: the plugin {error}")))?;
    let chain = Chain::load(&engine, &bundle(&found, file, &config)?)
        .map_err(|error| Failure::refused(format!("{name}: the plugin {}", error.problem)))?;
    let mut refusals = Vec::new();
    for (document, subject) in subjects {
        match try_on(&chain, &subject) {
            Ok(trial) => {
                output::print(&describe(&document.title(), &found, &trial))?;
                refusals.extend(broken_promises(document, &subject, &trial));
            }
            Err(reason) => refusals.push(document.refuse(&[], reason)),
        }
    }
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(Failure::Refused(refusals))
    }
}

/// The pods among the documents, and those that workloads describe.
fn subjects<'a>(
    documents: &'a [Document],
    namespace: &str,
) -> Result<Vec<(&'a Document, Subject)>, Failure> {
    let findings = manifest::check(documents)?;
    if !findings.refusals.is_empty() {
        return Err(Failure::Refused(findings.refusals));
    }
    let namespaces = Namespaces::of(documents);
    let subjects: Vec<_> = documents
        .iter()
        .filter_map(|document| {
            let template = match manifest::kind(document) {
                Kind::Pod => None,
                Kind::Workload(template) => Some(template),
                _ => return None,
            };
            let subject = subject(document, template.as_ref(), &namespaces, namespace);
            Some((document, subject))
        })
        .collect();
    if subjects.is_empty() {
        return Err(Failure::refused(
            "no pod to try the plugin on: --pod wants Pods or workloads; `podloom render` makes pods of Browsers",
        ));
    }
    Ok(subjects)
}

/// A chain of this plugin alone, which gets what it needs and nothing more.
fn bundle(
    found: &Inspection,
    file: Vec<u8>,
    config: &Map<String, Value>,
) -> Result<Bundle, Failure> {
    let manifest = json!({
        "apiVersion": "podloom.dev/v1alpha1",
        "kind": "MutatorChain",
        "plugins": [{
            "name": found.description.name,
            "file": FILE,
            "allow": found.description.writes,
            "read": found.description.reads,
            "config": config,
        }],
    });
    Bundle::from_parts(&manifest.to_string(), [(FILE.to_owned(), file)])
        .map_err(|error| Failure::Broken(anyhow::Error::new(error)))
}

fn try_on(chain: &Chain, subject: &Subject) -> Result<Trial, String> {
    let call = |pod: &Value| {
        chain
            .mutate(pod.clone(), &subject.request)
            .map_err(|rejected| rejected.to_string())
    };
    let first = call(&subject.pod)?;
    let mut deterministic = true;
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let next = call(&subject.pod);
        deterministic &= next.as_ref().is_ok_and(|next| next.pod == first.pod);
        times.extend(
            next.iter()
                .flat_map(|next| &next.runs)
                .map(|run| run.duration),
        );
    }
    times.sort_unstable();
    let again = call(&first.pod).map(|again| {
        again
            .runs
            .into_iter()
            .flat_map(|run| run.writes)
            .map(|write| write.path)
            .collect()
    });
    let Mutation { runs, .. } = first;
    let run = runs
        .into_iter()
        .next()
        .ok_or("the chain of one plugin ran none")?;
    Ok(Trial {
        run,
        deterministic,
        again,
        median: times.get(times.len() / 2).copied().unwrap_or_default(),
    })
}

fn describe(title: &str, found: &Inspection, trial: &Trial) -> String {
    let mut text = format!("{}\n", paint(TITLE, title));
    text.push_str(&explain::plugin(&trial.run));
    let mut row = |name: &str, value: &str| {
        let _infallible = writeln!(text, "    {name:<14} {value}");
    };
    let yes_or_no = |holds: bool| {
        if holds {
            "yes".to_owned()
        } else {
            paint(ERROR, "no")
        }
    };
    row("deterministic", &yes_or_no(trial.deterministic));
    row(
        "idempotent",
        &yes_or_no(trial.again.as_ref().is_ok_and(Vec::is_empty)),
    );
    row(
        "time per call",
        &format!("{} us (median of {CALLS})", trial.median.as_micros()),
    );
    for asked in &found.description.writes {
        let made = trial
            .run
            .writes
            .iter()
            .filter(|write| covers(asked, &write.path))
            .count();
        row("asked to write", &format!("{asked} ({made} made)"));
    }
    text
}

/// Whether a grant is the one that let a write pass.
fn covers(grant: &str, path: &str) -> bool {
    match (Grants::parse(&[grant]), Grants::parse(&[path])) {
        (Ok(grant), Ok(path)) => grant.covers(&path).is_ok(),
        _ => false,
    }
}

/// What every plugin promises, unless its chain says otherwise.
fn broken_promises(document: &Document, subject: &Subject, trial: &Trial) -> Vec<Refusal> {
    let mut broken = Vec::new();
    if !trial.deterministic {
        broken.push("the plugin is not deterministic: equal pods became different pods".to_owned());
    }
    match &trial.again {
        Ok(paths) if paths.is_empty() => {}
        Ok(paths) => broken.push(format!(
            "the plugin is not idempotent: over its own result it writes {}",
            paths.join(", ")
        )),
        Err(reason) => broken.push(format!("over its own result: {reason}")),
    }
    // A label that the workload's selector matches is refused to a plugin that did ask for it.
    if trial.run.refused_writes > 0 && subject.request.selector.is_empty() {
        broken.push(format!(
            "the plugin tried {} that it does not ask for in its `writes`",
            explain::count(trial.run.refused_writes, "write")
        ));
    }
    broken
        .into_iter()
        .map(|message| document.refuse(&[], message))
        .collect()
}
