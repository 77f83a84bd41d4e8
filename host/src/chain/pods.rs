//! Tries a chain on pods of the user's, besides the sample pods.

use std::sync::Arc;

use podloom_mutation::{PluginOutcome, PodRejection, PodRequest};
use podloom_mutators::Chain;
use serde_json::Value;

use super::Pods;
use crate::error::{CommandError, Diagnostic};
use crate::explain;
use crate::feed::{self, FoundPod};
use crate::manifest::{self, Depth};
use crate::subjects::subjects;

/// What else is done with each pod, with its name and its request.
pub(super) type Each<'a> = &'a mut dyn FnMut(&str, &Value, &Arc<PodRequest>);

/// How a chain did on a pod.
enum Verdict {
    Fine,
    /// A valid outcome; reported, since it may surprise.
    Denied,
    Broken(String),
}

/// How a chain did on pods of the user's.
#[derive(Default)]
struct Tally {
    pods: usize,
    denied: usize,
    errors: Vec<Diagnostic>,
}

impl Tally {
    fn add(
        &mut self,
        chain: &Chain,
        pod: &Value,
        request: &Arc<PodRequest>,
        broken: impl FnOnce(String) -> Diagnostic,
    ) {
        self.pods += 1;
        match check_pod(chain, pod, request) {
            Verdict::Fine => {}
            Verdict::Denied => self.denied += 1,
            Verdict::Broken(message) => self.errors.push(broken(message)),
        }
    }
}

/// Runs the chain on each pod of these files, twice, and again on its own result. Says what was tried.
pub(super) fn check(
    chain: &Chain,
    pods: &Pods<'_>,
    each: Each<'_>,
) -> Result<String, CommandError> {
    let mut tally = Tally::default();
    if !pods.files.is_empty() {
        let documents = manifest::read(pods.files, Depth::Flat)?;
        for (document, subject) in &subjects(&documents, pods.namespace, pods.warnings)? {
            let request = Arc::new(subject.request.clone());
            each(&document.title(), &subject.pod, &request);
            tally.add(chain, &subject.pod, &request, |message| {
                document.diagnostic(&[], message)
            });
        }
    }
    if let Some(directory) = pods.corpus {
        let before = tally.pods;
        for pod in feed::corpus(directory, pods.namespace)? {
            let FoundPod { name, subject, .. } = pod?;
            let request = Arc::new(subject.request);
            each(&name, &subject.pod, &request);
            tally.add(chain, &subject.pod, &request, |message| {
                Diagnostic::new(format!("{name}: {message}"))
            });
        }
        if tally.pods == before {
            return Err(feed::no_pod(&[]));
        }
    }
    let Tally {
        pods,
        denied,
        errors,
    } = tally;
    if !errors.is_empty() {
        return Err(CommandError::CheckFailed(errors));
    }
    let own = format!("{} of yours", explain::count(pods, "pod"));
    Ok(match denied {
        0 => own,
        denied => format!("{own}, {denied} of them denied"),
    })
}

fn check_pod(chain: &Chain, pod: &Value, request: &Arc<PodRequest>) -> Verdict {
    let run = |pod: &Value| chain.mutate(pod.clone(), Arc::clone(request));
    let (once, again) = (run(pod), run(pod));
    let result = match (once, again) {
        (Ok(once), Ok(again)) if once.pod == again.pod => once,
        (Err(once), Err(again)) if once.rejection == again.rejection => {
            return match once.rejection {
                PodRejection::Denied(_) => Verdict::Denied,
                _ => Verdict::Broken(once.to_string()),
            };
        }
        _ => {
            let message =
                "the chain is not deterministic: two runs on this pod gave different results";
            return Verdict::Broken(message.to_owned());
        }
    };
    let ignored = result.runs.iter().find_map(|run| match &run.outcome {
        PluginOutcome::Ignored(failure) => Some(format!("plugin {} failed: {failure}", run.plugin)),
        _ => None,
    });
    if let Some(failure) = ignored {
        return Verdict::Broken(failure);
    }
    // As for the sample pods: one plugin that may write again makes the whole chain write again.
    if chain.plugins().iter().any(|plugin| !plugin.idempotent) {
        return Verdict::Fine;
    }
    match run(&result.pod) {
        Ok(again) => {
            let writes = again.runs.iter().flat_map(|run| {
                let named = run.writes.iter();
                named.map(|write| format!("{} ({})", write.path, run.plugin))
            });
            let writes: Vec<String> = writes.collect();
            if writes.is_empty() {
                return Verdict::Fine;
            }
            Verdict::Broken(format!(
                "the chain is not idempotent: run again on its own result it makes {}: {}",
                explain::count(writes.len(), "write"),
                writes.join(", ")
            ))
        }
        Err(rejected) => Verdict::Broken(format!("the chain rejects its own result: {rejected}")),
    }
}
