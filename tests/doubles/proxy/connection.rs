//! Connections that can go silent.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::Controls;
use super::forward::Upstream;

/// How many bytes are read from a connection at once.
const BUFFER: usize = 16 * 1024;

/// Which connections work. They are numbered in the order in which they open.
#[derive(Default)]
pub(super) struct Switchboard(watch::Sender<Lines>);

#[derive(Default)]
struct Lines {
    next: u64,
    /// Connections with lower numbers are silent.
    silent_below: u64,
    /// Connections with lower numbers are closed.
    dropped_below: u64,
}

impl Switchboard {
    pub(super) fn silence(&self) {
        self.0.send_modify(|lines| lines.silent_below = lines.next);
    }

    pub(super) fn silence_all(&self) {
        self.0.send_modify(|lines| lines.silent_below = u64::MAX);
    }

    pub(super) fn resume(&self) {
        self.0.send_modify(|lines| lines.silent_below = 0);
    }

    pub(super) fn drop_connections(&self) {
        self.0.send_modify(|lines| lines.dropped_below = lines.next);
    }

    fn connect(&self) -> Line {
        let mut number = 0;
        self.0.send_modify(|lines| {
            number = lines.next;
            lines.next += 1;
        });
        Line {
            number,
            lines: self.0.subscribe(),
        }
    }
}

/// One connection on the switchboard.
#[derive(Clone)]
struct Line {
    number: u64,
    lines: watch::Receiver<Lines>,
}

impl Line {
    /// Waits while the connection is silent.
    async fn carries(&mut self) {
        let _proxy_ends = self
            .lines
            .wait_for(|lines| self.number >= lines.silent_below)
            .await;
    }

    /// Waits until the connection must be closed.
    async fn drops(mut self) {
        let _proxy_ends = self
            .lines
            .wait_for(|lines| self.number < lines.dropped_below)
            .await;
    }
}

/// Serves a connection. Between the socket and the HTTP server there is a pipe, where a silent connection holds its bytes back.
pub(super) async fn serve(stream: TcpStream, upstream: Upstream, controls: Arc<Controls>) {
    let line = controls.switchboard.connect();
    let (inner, pipe) = duplex(BUFFER);
    let (from_server, to_server) = split(pipe);
    let (from_client, to_client) = stream.into_split();
    let service = service_fn(|request| upstream.answer(request, &controls));
    let serving = http1::Builder::new().serve_connection(TokioIo::new(inner), service);
    let receiving = async {
        let _either_side_has_gone =
            tokio::join!(carry(from_client, to_server, line.clone()), serving);
        pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        // First, so that a connection that is dropped while it is silent sends nothing more.
        () = line.clone().drops() => {}
        // It ends when the server's last byte is forwarded, or the client has disconnected.
        _ = carry(from_server, to_client, line.clone()) => {}
        _ = receiving => {}
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut line: Line,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        line.carries().await;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..read).unwrap_or_default()).await?;
    }
}
