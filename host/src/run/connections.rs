//! Accepts connections, within limits that axum's own server does not have.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Probes and scrapers need a handful.
const CONNECTIONS: usize = 128;
const HEADER_BYTES: usize = 16 << 10;
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long requests that are being answered may take after the end was asked for.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// Too many open files, for example: it passes.
const AFTER_ERROR: Duration = Duration::from_millis(200);

/// Serves until the end is asked for, and finishes what is being answered.
pub(super) async fn serve(listener: TcpListener, router: Router, end: CancellationToken) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = end.cancelled() => break,
            accepted = accept(&listener, &free) => accepted,
        };
        match accepted {
            Ok((stream, peer, permit)) => {
                let service = router.clone().layer(Extension(ConnectInfo(peer)));
                let service = TowerToHyperService::new(service);
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIME)
                    .max_buf_size(HEADER_BYTES)
                    .serve_connection(TokioIo::new(stream), service);
                let connection = graceful.watch(connection);
                connections.spawn(async move {
                    // What a peer does wrong is its own trouble.
                    let _ = connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                sleep(AFTER_ERROR).await;
            }
        }
    }
    let _ = timeout(LAST_REQUESTS, graceful.shutdown()).await;
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(free)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}
