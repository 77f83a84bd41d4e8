//! `podloom drift --repair`: has pods replaced, and says how that goes.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use tokio::time::sleep;

use super::{Found, Healer, Report, Settings, look};
use crate::cli::{DriftArguments, RepairArguments};
use crate::drift::{self, Expected, Scope};
use crate::error::{CommandError, shown};
use crate::explain::{count, table};
use crate::feed::block_on;
use crate::lists;
use crate::output::{self, TITLE, WARNING, paint};

/// How long to wait between two steps.
const STEP: Duration = Duration::from_secs(1);
/// How many owners are listed before it begins.
const LISTED: usize = 50;

/// Has the pods of a scope replaced that missed the chain.
///
/// # Errors
/// If some should be replaced, and were not.
pub(crate) fn repair(arguments: &DriftArguments) -> Result<(), CommandError> {
    let expected = drift::chain(arguments)?.as_ref().map(Expected::of);
    block_on(async {
        let client = lists::connect().await?;
        let scope = Scope::of(arguments, &client);
        run(&client, &scope, expected, &arguments.repair).await
    })
}

async fn run(
    client: &Client,
    scope: &Scope,
    expected: Option<Expected>,
    arguments: &RepairArguments,
) -> Result<(), CommandError> {
    let RepairArguments {
        owners,
        ready_within,
        banned,
        older,
        ..
    } = arguments;
    let settings = Settings::new(*owners, *ready_within, banned, *older);
    let found = look(client, scope, expected, &settings.unwanted, &[]).await?;
    if let Some(why) = found.judge.unjudged() {
        return Err(drift::unjudged(why, scope));
    }
    output::print(&plan(&found))?;
    if arguments.dry_run || found.workloads.is_empty() {
        return Ok(());
    }
    if !arguments.yes && !is_wanted(&found)? {
        return output::print("nothing was evicted\n");
    }
    let mut healer = Healer::new(client.clone(), settings, Arc::default(), found);
    let mut left = 0;
    while !healer.is_over() {
        for report in healer.step().await {
            left += usize::from(matches!(report, Report::Left(..)));
            output::print(&line(&report))?;
        }
        sleep(STEP).await;
    }
    match (healer.stopped(), left, healer.waiting()) {
        (0, 0, 0) => output::print("done: podloom drift says what else there is\n"),
        (stopped, left, waiting) => Err(CommandError::Other(anyhow::anyhow!(
            "not all pods were replaced: it stopped at {}, left {} alone, and did not begin with {}; mend these, and run it again",
            count(stopped, "owner"),
            count(left, "owner"),
            count(waiting, "owner")
        ))),
    }
}

/// What would be evicted.
fn plan(found: &Found) -> String {
    let mut lines = Vec::new();
    for skipped in &found.skipped {
        lines.push(paint(WARNING, &shown(&skipped.line())));
    }
    let pods: u64 = found.workloads.iter().map(|it| it.pods).sum();
    lines.push(match pods {
        0 => "no pod is to be evicted".to_owned(),
        _ => {
            let owners = count(found.workloads.len(), "owner");
            let title = format!("{} of {owners} should be replaced", count(pods, "pod"));
            paint(TITLE, &title)
        }
    });
    let rows: Vec<[String; 2]> = (found.workloads.iter().take(LISTED))
        .map(|it| [it.name(), count(it.pods, "pod")])
        .collect();
    lines.extend(table(&rows).iter().map(|it| format!("  {}", shown(it))));
    if found.workloads.len() > LISTED {
        lines.push(format!("  and {} more", found.workloads.len() - LISTED));
    }
    if found.manual > 0 {
        let pods = count(found.manual, "pod");
        lines.push(format!("{pods} more have no controller of a known kind: podloom drift names them, and you replace them yourself"));
    }
    lines.join("\n") + "\n"
}

fn is_wanted(found: &Found) -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        let why = "nobody can be asked, since standard input is not a terminal: add --yes to evict these pods, or --dry-run";
        return Err(CommandError::invalid(why));
    }
    let pods: u64 = found.workloads.iter().map(|it| it.pods).sum();
    output::print(&format!("evict {}? [y/N] ", count(pods, "pod")))?;
    io::stdout().flush().context("standard output")?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.context("standard input")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn line(report: &Report) -> String {
    let text = match report {
        Report::Evicted(pod, need) => {
            let (namespace, name) = (&pod.namespace, &pod.name);
            format!("evicted {namespace}/{name} ({})", need.as_str())
        }
        Report::Healed(workload) => format!("done with {}", workload.name()),
        Report::Stopped(workload, why) => format!("stopped at {}: {why}", workload.name()),
        Report::Left(workload, why) => format!("left {} alone: {why}", workload.name()),
    };
    let text = shown(&text);
    let text = match report {
        Report::Stopped(..) | Report::Left(..) => paint(WARNING, &text),
        Report::Evicted(..) | Report::Healed(_) => text,
    };
    format!("{text}\n")
}
