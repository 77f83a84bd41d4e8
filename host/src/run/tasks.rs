//! The tasks of the operator: what they are, and how they end.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connections::{Server, Stop, Transport};
use super::loading::Loading;
use super::wiring::{self, Operator};
use super::{connections, own_pod, server};
use crate::cli::RunArguments;
use crate::log::Filter;
use crate::traces::Exporter;

/// Runs all tasks until a signal stops them, or until one ends unexpectedly.
pub(super) async fn run(
    arguments: &RunArguments,
    log: Filter,
    traces: Option<Exporter>,
) -> Result<()> {
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let http = listen(arguments.http)?;
    let probes = arguments.probes.map(listen).transpose()?;
    let address = |listener: &TcpListener| listener.local_addr().ok().map(tracing::field::display);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        http = address(&http),
        probes = probes.as_ref().and_then(address),
        "starting"
    );
    let config = wiring::cluster().await?;
    let (operator, loading) = wiring::operator(&config, arguments, &stop, traces.as_ref())?;
    // Probes are answered until everything else has ended.
    let served = CancellationToken::new();
    let app = server::App::new(&operator.state, &operator.registry, log);
    let mut tasks = JoinSet::new();
    let mut serve = |listener, router, limits| {
        let server = Server {
            router,
            limits,
            transport: Transport::Plain,
            stop: Stop::at_once(served.clone()),
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
        let (instance, served) = (own_pod::instance(&arguments.own_pod), served.clone());
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
    tasks: &mut JoinSet<(&'static str, Result<()>)>,
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
async fn drained(tasks: &mut JoinSet<(&'static str, Result<()>)>) -> Result<()> {
    let ended = tasks.join_next().await;
    if let Some(Ok(("the operator", result))) = ended {
        return result;
    }
    Err(unexpected(ended))
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    connections::listen(address).with_context(|| format!("cannot listen on {address}"))
}

/// Runs the loader of the chain, and the enabled duties.
async fn operate(mut operator: Operator, loading: Loading) -> Result<()> {
    let stopped = operator.state.stop.clone();
    // Each duty in a task of its own, so that a busy one does not keep another from renewing its Lease.
    let mut duties = JoinSet::new();
    if let Some(webhook) = operator.webhook.take() {
        let stopped = stopped.clone();
        duties.spawn(async move {
            webhook.run(stopped).await;
            ("the admission webhooks", Ok(()))
        });
    }
    let duty_tasks = operator.duty_tasks.iter();
    let ready: Vec<_> = duty_tasks.map(|duty| operator.first_chain(duty)).collect();
    for (duty, ready) in operator.duty_tasks.into_iter().zip(ready) {
        duties.spawn(async move { (duty.state.row.name, duty.run(ready).await) });
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
async fn until_stopped(
    mut duties: JoinSet<(&'static str, Result<()>)>,
    stopped: &CancellationToken,
) -> Result<()> {
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
