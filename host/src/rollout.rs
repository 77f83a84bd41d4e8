//! `podloom rollout`: shows and steers the rollout of a candidate.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use podloom_api::names::rollout::reason;
use podloom_api::{
    ChainRollout, ChainRolloutObject, ChainRolloutStatus, RolloutPhase, RolloutPods,
    RolloutReplica, RolloutVerdict,
};
use podloom_engine::readable::Readable;
use podloom_engine::shown::short_digest;
use podloom_mutation::owner_of;
use podloom_mutators::CHAIN;
use podloom_rollout::first;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cli::{PodsArguments, ReportFormat, RolloutArguments, RolloutCommand, StatusArguments};
use crate::error::{CommandError, escape_controls, shown};
use crate::explain::table;
use crate::feed::block_on;
use crate::lists::{self, Pages, Place};
use crate::manifest::metadata;
use crate::output;

/// How often to look while waiting.
const LOOK: Duration = Duration::from_secs(2);
const FIELD_MANAGER: &str = "podloom-cli";
const ADVICE: &str = "name the namespace of the operator with --namespace, or create one";

/// Shows the rollout, or changes what is wanted of it.
pub(crate) fn run(command: &RolloutCommand) -> Result<(), CommandError> {
    block_on(async {
        match command {
            RolloutCommand::Status(arguments) => status(arguments).await,
            RolloutCommand::Pause(of) => {
                change(of, |_| Ok(json!({ "paused": true })), "it is paused").await
            }
            RolloutCommand::Resume(of) => change(of, resumed, "it goes on").await,
            RolloutCommand::Promote(of) => {
                let decided = |it: &ChainRolloutObject| decided(it, RolloutVerdict::Promote);
                change(of, decided, "every pod will pass the candidate").await
            }
            RolloutCommand::Abort(of) => {
                let decided = |it: &ChainRolloutObject| decided(it, RolloutVerdict::Abort);
                change(of, decided, "no pod will pass the candidate any more").await
            }
            RolloutCommand::Pods(arguments) => pods(arguments).await,
        }
    })
}

/// One that cannot be read must not hide the others.
fn rollouts(client: Client, namespace: &str) -> Api<Readable<ChainRolloutObject>> {
    Api::namespaced_with(client, namespace, &Arc::new(ChainRollout::resource()))
}

/// Finds the ChainRollout, as the operator does.
async fn find(client: &Client, of: &RolloutArguments) -> Result<ChainRolloutObject, CommandError> {
    let namespace = of.namespace.as_str();
    let all = rollouts(client.clone(), namespace)
        .list(&ListParams::default())
        .await;
    let all = all.with_context(|| {
        format!(
            "cannot list ChainRollouts of namespace {namespace}; are their CustomResourceDefinition and the controller of deploy/rollout installed?"
        )
    })?;
    let mut all = all.items;
    if let Some(name) = &of.name {
        all.retain(|it| it.name_any() == *name);
    }
    if let Some(found) = first(&all) {
        return Ok(found.clone());
    }
    let unreadable = all.iter().find_map(|it| it.0.as_ref().err());
    let error = match (unreadable, &of.name) {
        (Some(unreadable), _) => anyhow!(
            "ChainRollout {} of namespace {namespace} cannot be read: {}",
            unreadable.metadata.name.as_deref().unwrap_or_default(),
            unreadable.error
        ),
        (None, Some(name)) => {
            anyhow!("there is no ChainRollout {name} in namespace {namespace}; {ADVICE}")
        }
        (None, None) => anyhow!("there is no ChainRollout in namespace {namespace}; {ADVICE}"),
    };
    Err(error.into())
}

/// Lists the pods whose stamp is that of the candidate.
async fn pods(arguments: &PodsArguments) -> Result<(), CommandError> {
    let client = lists::connect().await?;
    let rollout = find(&client, &arguments.rollout).await?;
    let status = rollout.status.unwrap_or_default();
    let candidate = candidate_of(status, arguments.candidate.as_deref())?;
    let place = Place::new("v1", "pods");
    let mut pages = Pages::of_metadata(&client, &place);
    let mut found = Vec::new();
    while let Some(page) = pages.next().await.map_err(|it| it.into_error("pods"))? {
        let passed = |pod: &&Value| {
            let annotations = pod.pointer("/metadata/annotations");
            annotations.and_then(|it| it.get(CHAIN)?.as_str()) == Some(&*candidate)
        };
        found.extend(page.iter().filter(passed).map(whose));
    }
    let text = match arguments.output {
        ReportFormat::Json => {
            let object = |[namespace, owner, pod]: &[String; 3]| json!({ "namespace": namespace, "owner": owner, "pod": pod });
            output::json_text(&found.iter().map(object).collect())?
        }
        ReportFormat::Text if found.is_empty() => {
            format!(
                "no pod is left that passed the candidate {}\n",
                short_digest(&candidate)
            )
        }
        ReportFormat::Text => {
            let heads = ["NAMESPACE", "OWNER", "POD"].map(str::to_owned);
            found.insert(0, heads);
            table(&found).join("\n") + "\n"
        }
    };
    output::print(&text)
}

/// The digest that begins so: of the present candidate, or of one that was taken back. Without a beginning, the present one.
fn candidate_of(status: ChainRolloutStatus, start: Option<&str>) -> anyhow::Result<String> {
    let Some(start) = start else {
        let present = status.candidate;
        return present.ok_or_else(|| anyhow!("no candidate was ever rolled out"));
    };
    let all = status.candidate.into_iter().chain(status.rejected);
    let found: BTreeSet<String> = all.filter(|it| it.starts_with(start)).collect();
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(anyhow!(
            "the ChainRollout knows no candidate {}",
            shown(start)
        )),
        _ => Err(anyhow!("several candidates begin with {}", shown(start))),
    }
}

/// The namespace of a pod, its owner as a rollout counts it, and its name.
fn whose(pod: &Value) -> [String; 3] {
    let (namespace, name) = (metadata(pod, "namespace"), metadata(pod, "name"));
    let owner = owner_of(pod, namespace);
    let owner = owner.replacen(&format!("/{namespace}/"), "/", 1);
    [namespace, &owner, name].map(shown)
}

async fn status(arguments: &StatusArguments) -> Result<(), CommandError> {
    let client = lists::connect().await?;
    let (began, mut said) = (Instant::now(), String::new());
    loop {
        let rollout = find(&client, &arguments.rollout).await?;
        let status = rollout.status.clone().unwrap_or_default();
        let is_over = is_over(&rollout, &status, arguments.candidate.as_deref());
        if !arguments.wait || is_over {
            print(&rollout, &status, arguments.output)?;
            let serves = status.phase == Some(RolloutPhase::Completed);
            return match arguments.wait && !serves {
                true => Err(CommandError::Different),
                false => Ok(()),
            };
        }
        let line = format!("{}\n", headline(&rollout, &status));
        if line != said {
            output::print_note(&line);
            said = line;
        }
        if arguments
            .timeout
            .is_some_and(|longest| began.elapsed() >= longest)
        {
            let error = anyhow!(
                "it was not over within {:?}",
                arguments.timeout.unwrap_or_default()
            );
            return Err(error.into());
        }
        sleep(LOOK).await;
    }
}

/// Whether the last word is said, about the present spec and about this candidate if one is named.
fn is_over(
    rollout: &ChainRolloutObject,
    status: &ChainRolloutStatus,
    candidate: Option<&str>,
) -> bool {
    let digest = status.candidate.as_deref().unwrap_or_default();
    status.phase.is_some_and(RolloutPhase::is_final)
        && status.observed_generation == rollout.metadata.generation
        && rollout.spec.attempt <= status.attempt
        && candidate.is_none_or(|start| digest.starts_with(start))
}

/// Writes what is wanted, and says so.
async fn change(
    of: &RolloutArguments,
    spec: impl Fn(&ChainRolloutObject) -> Result<Value, CommandError>,
    said: &str,
) -> Result<(), CommandError> {
    let client = lists::connect().await?;
    let rollout = find(&client, of).await?;
    // With the version: a decision is about what was just read.
    let patch = json!({
        "metadata": { "resourceVersion": rollout.resource_version() },
        "spec": spec(&rollout)?,
    });
    let name = rollout.name_any();
    let api = rollouts(client, &of.namespace);
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let written = api.patch(&name, &parameters, &Patch::Merge(patch)).await;
    written.with_context(|| format!("cannot change ChainRollout {name}"))?;
    output::print(&format!("ChainRollout {name}: {said}\n"))
}

fn decided(rollout: &ChainRolloutObject, verdict: RolloutVerdict) -> Result<Value, CommandError> {
    let status = rollout.status.clone().unwrap_or_default();
    use RolloutPhase::{Completed, Paused, Progressing};
    let may = matches!(
        (status.phase, verdict),
        (Some(Progressing | Paused), _) | (Some(Completed), RolloutVerdict::Abort)
    );
    let Some(candidate) = status.candidate.filter(|_| may) else {
        let phase = status.phase.unwrap_or(RolloutPhase::Waiting);
        let advice = match verdict {
            RolloutVerdict::Promote => {
                "; to begin again with the same candidate, use podloom rollout resume"
            }
            RolloutVerdict::Abort => "",
        };
        let text = format!("nothing is under way: the phase is {phase}{advice}");
        return Err(CommandError::Other(anyhow!(text)));
    };
    Ok(json!({ "decision": { "candidate": candidate, "verdict": verdict } }))
}

fn resumed(rollout: &ChainRolloutObject) -> Result<Value, CommandError> {
    let status = rollout.status.clone().unwrap_or_default();
    let is_rejected = status.reason.as_deref() == Some(reason::REJECTED);
    let is_decided = matches!(
        status.phase,
        Some(RolloutPhase::RolledBack | RolloutPhase::Aborted)
    );
    Ok(match is_decided || is_rejected {
        true => {
            let attempt = rollout.spec.attempt.max(status.attempt).saturating_add(1);
            json!({ "paused": false, "attempt": attempt, "decision": null })
        }
        false => json!({ "paused": false }),
    })
}

fn print(
    rollout: &ChainRolloutObject,
    status: &ChainRolloutStatus,
    format: ReportFormat,
) -> Result<(), CommandError> {
    let text = match format {
        ReportFormat::Json => output::json_text(&json!(status))?,
        ReportFormat::Text => report(rollout, status),
    };
    output::print(&text)
}

/// As `Progressing 2/4: the next step begins after 9m more`.
fn headline(rollout: &ChainRolloutObject, status: &ChainRolloutStatus) -> String {
    let phase = status
        .phase
        .map_or("not looked at yet", RolloutPhase::as_str);
    let progress = status.progress.as_deref().unwrap_or_default();
    let message = match &status.message {
        Some(message) => format!(": {}", escape_controls(message)),
        None => " (is the controller of deploy/rollout running?)".to_owned(),
    };
    format!("{} {phase} {progress}", rollout.name_any())
        .trim_end()
        .to_owned()
        + &message
}

fn report(rollout: &ChainRolloutObject, status: &ChainRolloutStatus) -> String {
    let mut text = output::paint(output::TITLE, &headline(rollout, status)) + "\n";
    let ChainRolloutStatus {
        serving,
        candidate,
        percent,
        ..
    } = status;
    if let (Some(serving), Some(candidate)) = (serving, candidate) {
        let _infallible = writeln!(
            text,
            "candidate {}: up to {percent} percent of owners; serving chain {}: all others\n",
            short_digest(candidate),
            short_digest(serving)
        );
        numbers(&mut text, &status.candidate_pods, &status.serving_pods);
        let tried = status.tried;
        let _infallible = writeln!(
            text,
            "\ntried on both chains: {} pods; denied by the candidate alone: {}; failed in it alone: {}\n",
            tried.pods, tried.denied, tried.failed
        );
    }
    for (name, replica) in &status.replicas {
        let _infallible = writeln!(text, "replica {}: {}", shown(name), chains(replica, status));
    }
    text
}

fn numbers(text: &mut String, candidate: &RolloutPods, serving: &RolloutPods) {
    type Of = fn(&RolloutPods) -> i64;
    let rows: [(&str, Of); 7] = [
        ("reviewed", |it| it.reviewed),
        ("denied", |it| it.denied),
        ("failed", |it| it.failed),
        ("mean in us", |it| it.mean_microseconds),
        ("ready", |it| it.ready),
        ("unready", |it| it.unready),
        ("restarted", |it| it.restarted),
    ];
    let _infallible = writeln!(text, "pods            candidate    serving");
    for (name, of) in rows {
        let (candidate, serving) = (of(candidate), of(serving));
        let _infallible = writeln!(text, "{name:<13}  {candidate:>10} {serving:>10}");
    }
}

fn chains(replica: &RolloutReplica, status: &ChainRolloutStatus) -> String {
    let shown = |digest: &Option<String>| digest.as_deref().map_or("none", short_digest).to_owned();
    let follows = match replica.rollout == status.rollout {
        true => "",
        false => ", does not follow yet",
    };
    format!(
        "serving {}, candidate {}{follows}",
        shown(&replica.serving),
        shown(&replica.candidate)
    )
}

#[cfg(test)]
mod tests;
