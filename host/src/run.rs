//! `podloom run`: the operator.

mod candidate;
mod capacity;
mod checks;
mod connections;
mod drift;
mod duty;
mod exceptions;
mod gate;
mod heal;
mod history;
mod loading;
mod metrics;
mod parts;
mod preflight;
mod reports;
mod rollout;
mod server;
mod state;
mod webhook;
mod wiring;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::connections::Server;
use self::loading::Loading;
use self::wiring::Operator;
use crate::cli::RunArguments;
use crate::client;
use crate::error::CommandError;
use crate::log::Filter;
use crate::traces::Exporter;

/// Plugins are compiled and called on blocking threads. The engine limits how many run at once, so more threads would only wait.
const BLOCKING_THREADS: usize = 32;

/// Runs the operator until a signal stops it.
pub(crate) fn run(
    arguments: &RunArguments,
    log: Filter,
    traces: Option<Exporter>,
) -> Result<(), CommandError> {
    if let Some(wrong) = contradiction(arguments) {
        return Err(CommandError::Usage(wrong));
    }
    if arguments.duties().is_empty() {
        tracing::warn!(
            "no controller is enabled, so the operator only answers over HTTP; enable one with --controllers, or the webhooks with --webhook"
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("could not start the operator's threads")?;
    let done = runtime.block_on(run_tasks(arguments, log, traces));
    // A compilation that still runs is dropped: it has nothing to finish.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(done?)
}

/// What is wrong with the options together.
fn contradiction(arguments: &RunArguments) -> Option<String> {
    let RunArguments {
        plugins, candidate, ..
    } = arguments;
    let has_webhook = arguments.webhook.address.is_some();
    let last = arguments.webhook.drain.saturating_add(webhook::LAST);
    let wrong = if arguments.needs_chain() && plugins.is_none() && !arguments.allow_empty_chain {
        "no plugin chain: name its directory with --plugins DIR, or run without plugins with --allow-empty-chain"
    } else if !arguments.require_signature.is_empty() && arguments.allow_empty_chain {
        "--require-signature and --allow-empty-chain contradict each other: without a chain that is signed, pods would be created without plugins"
    } else if candidate.is_some() && candidate == plugins {
        "--candidate and --plugins name the same directory: give the candidate a directory of its own, for example a copy"
    } else if has_webhook && last > arguments.shutdown_timeout {
        return Some(format!(
            "--webhook-drain and {:?} for the last reviews do not fit into --shutdown-timeout {:?}: shorten the first or lengthen the second",
            webhook::LAST,
            arguments.shutdown_timeout
        ));
    } else if !has_webhook && !arguments.webhook.drift_interval.is_zero() {
        "--webhook-drift-interval needs --webhook: the replicas that serve the webhooks look for pods that missed them"
    } else if !has_webhook && !arguments.webhook.reports.is_empty() {
        "--webhook-reports needs --webhook: the replicas that serve the webhooks write the reports"
    } else if !has_webhook && arguments.webhook.gate {
        "--webhook-gate needs --webhook: the replicas that serve the webhooks open the gate"
    } else if !has_webhook && arguments.webhook.heal.how.is_some() {
        "--webhook-heal needs --webhook: the replicas that serve the webhooks have pods replaced that missed them"
    } else if arguments.webhook.client_ca.is_some()
        && (!has_webhook || arguments.webhook.without_tls)
    {
        "--webhook-client-ca needs --webhook with TLS: only there do clients show a certificate"
    } else if arguments.webhook.gate && arguments.allow_empty_chain {
        "--webhook-gate and --allow-empty-chain contradict each other: the gate is opened by a chain, and without one pods would run without plugins"
    } else {
        return None;
    };
    Some(wrong.to_owned())
}

/// The tasks of the process, by the names that errors give them.
type Tasks = JoinSet<(&'static str, Result<()>)>;

/// Runs all tasks until a signal stops them, or until one ends unexpectedly.
async fn run_tasks(arguments: &RunArguments, log: Filter, traces: Option<Exporter>) -> Result<()> {
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let http = connections::listen(arguments.http)?;
    let probes = arguments.probes.map(connections::listen).transpose()?;
    let address = |listener: &TcpListener| listener.local_addr().ok().map(tracing::field::display);
    tracing::info!(
        service.version = env!("CARGO_PKG_VERSION"),
        http = address(&http),
        probes = probes.as_ref().and_then(address),
        "starting"
    );
    let config = client::cluster(None).await?;
    tracing::info!(url = %config.cluster_url, "cluster");
    let (operator, loading) = wiring::operator(&config, arguments, &stop, traces.as_ref())?;
    // Probes are answered until everything else has ended.
    let served = CancellationToken::new();
    let app = server::App::new(&operator.state, &operator.registry, log);
    let mut tasks = Tasks::new();
    let mut serve = |listener, router, limits| {
        let server = Server {
            router,
            limits,
            tls: None,
            drain: served.clone(),
            end: served.clone(),
        };
        tasks.spawn(async move {
            server.serve(listener).await;
            ("the HTTP server", Ok(()))
        });
    };
    if let Some(probes) = probes {
        serve(probes, server::probes(app.clone()), server::PROBES_LIMITS);
    }
    serve(http, server::router(app), server::HTTP_LIMITS);
    if let Some(exporter) = traces {
        let (instance, served) = (parts::instance(&arguments.own_pod), served.clone());
        tasks.spawn(async move {
            exporter.run(instance, served).await;
            ("the exporter of traces", Ok(()))
        });
    }
    tasks.spawn(async move { ("the operator", operate(operator, loading).await) });
    let longest = arguments.shutdown_timeout;
    stopped(&mut tasks, &mut signals, &stop, longest).await?;
    served.cancel();
    while tasks.join_next().await.is_some() {}
    tracing::info!("stopped");
    Ok(())
}

/// Waits for a signal, and then until the operator has ended, at most for so long. A second signal ends that.
async fn stopped(
    tasks: &mut Tasks,
    signals: &mut Signals,
    stop: &CancellationToken,
    longest: Duration,
) -> Result<()> {
    tokio::select! {
        ended = tasks.join_next() => return Err(unexpected(ended)),
        name = signals.next() => {
            tracing::info!(signal = name, within = ?longest, "stopping; a second signal exits at once");
            stop.cancel();
        }
    }
    tokio::select! {
        drained = timeout(longest, drained(tasks)) => match drained {
            Ok(result) => result,
            Err(_) => bail!("could not stop within {longest:?}, so running work was aborted"),
        },
        name = signals.next() => bail!("exited at once after a second signal, {name}"),
    }
}

/// Waits until the operator has ended. The HTTP servers do not end before it.
async fn drained(tasks: &mut Tasks) -> Result<()> {
    let ended = tasks.join_next().await;
    if let Some(Ok(("the operator", result))) = ended {
        return result;
    }
    Err(unexpected(ended))
}

/// Runs the loader of the chain, and the enabled duties.
async fn operate(operator: Operator, loading: Loading) -> Result<()> {
    let stopped = operator.state.stop.clone();
    // Each duty in a task of its own, so that a busy one does not keep another from renewing its Lease.
    let mut duties = Tasks::new();
    if let Some(webhook) = operator.webhook {
        duties.spawn(async move {
            webhook.await;
            ("the admission webhooks", Ok(()))
        });
    }
    for duty in operator.duty_tasks {
        duties.spawn(async move { (duty.state.row.name, duty.run().await) });
    }
    let working = until_stopped(duties, &stopped);
    tokio::pin!(working);
    tokio::select! {
        worked = &mut working => worked,
        () = loading => {
            if !stopped.is_cancelled() {
                bail!("the loader of the plugin chain ended without being stopped");
            }
            working.await
        }
    }
}

/// Waits until the operator is stopped and all duties have ended. Without duties the process only answers over HTTP.
async fn until_stopped(mut duties: Tasks, stopped: &CancellationToken) -> Result<()> {
    while let Some(ended) = duties.join_next().await {
        match ended {
            Ok((_, Ok(()))) if stopped.is_cancelled() => {}
            ended => return Err(unexpected(Some(ended))),
        }
    }
    stopped.cancelled().await;
    Ok(())
}

/// The error for a task that ended without being stopped.
fn unexpected(
    ended: Option<Result<(&'static str, Result<()>), tokio::task::JoinError>>,
) -> anyhow::Error {
    match ended {
        Some(Ok((name, Ok(())))) => anyhow!("{name} ended without being stopped"),
        Some(Ok((name, Err(error)))) => error.context(format!("{name} ended")),
        Some(Err(error)) => anyhow::Error::new(error).context("a task panicked"),
        None => anyhow!("all tasks ended without being stopped"),
    }
}

/// The signals that stop the operator.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests;
