//! Listening, reporting that a double is ready, and ending with its owner.

use std::future::pending;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use podloom_tests::doubles::Ready;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The maximum number of open connections; more are closed at once.
const CONNECTIONS: usize = 1024;
/// How long to wait after a connection could not be accepted, usually because too many files are open.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Reads an address on loopback.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "not an address; write one like 127.0.0.1:0".to_owned())?;
    if !address.ip().is_loopback() {
        let port = address.port();
        return Err(format!(
            "doubles listen on loopback only; write 127.0.0.1:{port}"
        ));
    }
    Ok(address)
}

/// Listens at an address.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("could not listen on {address}"))
}

/// Prints the line that reports that the double is ready.
pub(crate) fn ready(listener: &TcpListener, control: Option<&TcpListener>) -> Result<()> {
    let ready = Ready {
        address: listener.local_addr()?,
        control: control.map(TcpListener::local_addr).transpose()?,
    };
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(&ready)?)?;
    Ok(output.flush()?)
}

/// Serves all connections, until this is dropped.
pub(crate) async fn accept<Served>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> Served,
) -> Result<()>
where
    Served: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < CONNECTIONS => {
                    connections.spawn(serve(stream));
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Waits until standard input is closed.
pub(crate) async fn owner_ends() {
    let (sender, closed) = oneshot::channel::<()>();
    // Not one of the runtime's threads: waiting for it would keep a double that failed from ending.
    std::thread::spawn(move || {
        let _ended_or_failed = io::copy(&mut io::stdin(), &mut io::sink());
        drop(sender);
    });
    if closed.await.is_ok() {
        pending().await
    }
}
