//! The tasks of the operator: what they are, and how they end.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::wiring::{self, Loading, Operator};
use super::{connections, server};
use crate::cli::RunArguments;
use crate::log::Filter;

/// Runs all tasks until a signal ends them, or one ends that should not.
pub(super) async fn run(arguments: &RunArguments, log: Filter) -> Result<()> {
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let http = listen(arguments.http)?;
    let probes = arguments.probes.map(listen).transpose()?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        http = http.local_addr().ok().map(tracing::field::display),
        probes = probes
            .as_ref()
            .and_then(|probes| probes.local_addr().ok())
            .map(tracing::field::display),
        "starting"
    );
    let (operator, loading) = wiring::operator(arguments, stop.clone()).await?;
    // Probes are answered until all else has ended.
    let served = CancellationToken::new();
    let app = server::App {
        state: Arc::clone(&operator.state),
        registry: Arc::clone(&operator.registry),
        log,
    };
    let mut tasks = JoinSet::new();
    let mut serve = |listener, router, limits| {
        let serving = connections::serve(listener, router, limits, served.clone());
        tasks.spawn(async move {
            serving.await;
            ("the HTTP server", Ok(()))
        });
    };
    if let Some(probes) = probes {
        serve(probes, server::probes(app.clone()), server::PROBES_LIMITS);
    }
    serve(http, server::router(app), server::HTTP_LIMITS);
    tasks.spawn(async move { ("the operator", operate(operator, loading).await) });
    tokio::select! {
        ended = tasks.join_next() => return Err(unexpected(ended)),
        name = signals.next() => {
            tracing::info!(signal = name, within = ?arguments.shutdown_timeout, "stopping; a second signal ends at once");
            stop.cancel();
        }
    }
    let drained = async {
        let ended = tasks.join_next().await;
        if let Some(Ok(("the operator", result))) = ended {
            return result;
        }
        Err(unexpected(ended))
    };
    tokio::select! {
        drained = timeout(arguments.shutdown_timeout, drained) => match drained {
            Ok(result) => result?,
            Err(_) => bail!("did not come to an end within {:?}, what was being done is cut off", arguments.shutdown_timeout),
        },
        name = signals.next() => bail!("ended at once by a second signal, {name}"),
    }
    served.cancel();
    while tasks.join_next().await.is_some() {}
    tracing::info!("stopped");
    Ok(())
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    connections::listen(address).with_context(|| format!("cannot listen on {address}"))
}

/// Loads the chain whenever it changes, and does the duties that are switched on.
async fn operate(operator: Operator, loading: Loading) -> Result<()> {
    let stopped = operator.state.stop.clone();
    // A task each: one that is busy for a while keeps no other from renewing its Lease.
    let mut duties = JoinSet::new();
    let posts = operator.posts.iter();
    let ready: Vec<_> = posts.map(|post| operator.first_chain(post)).collect();
    for (post, ready) in operator.posts.into_iter().zip(ready) {
        duties.spawn(async move { (post.state.row.name, post.run(ready).await) });
    }
    let working = until_stopped(duties, &stopped);
    tokio::pin!(working);
    tokio::select! {
        worked = &mut working => worked,
        () = loading => {
            if !stopped.is_cancelled() {
                bail!("nobody loads the chain any more");
            }
            working.await
        }
    }
}

/// Waits for a stop and until all duties have ended. Without any the process serves over HTTP alone.
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

/// No task ends before it is told to.
fn unexpected(
    ended: Option<Result<(&'static str, Result<()>), tokio::task::JoinError>>,
) -> anyhow::Error {
    match ended {
        Some(Ok((name, Ok(())))) => anyhow!("{name} ended though nobody stopped it"),
        Some(Ok((name, Err(error)))) => error.context(format!("{name} ended")),
        Some(Err(error)) => anyhow::Error::new(error).context("a task broke"),
        None => anyhow!("all tasks ended though nobody stopped them"),
    }
}

/// What asks us to stop.
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
