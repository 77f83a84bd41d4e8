//! `podloom-doubles hang`: a server that stops in the middle.

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use podloom_tests::doubles::Phase;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::listen;

/// The longest head of a request that is read.
const HEAD: u64 = 64 * 1024;
/// So long a connection to ourselves takes only if the queue is full.
const FULL: Duration = Duration::from_millis(300);
/// More than a queue of one takes anywhere.
const QUEUE: usize = 16;

/// A server that goes as far as it is told with each connection, and then does nothing more.
///
/// Whoever waits for it without a limit of his own waits for ever.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Where it listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// Where it stops.
    #[arg(long, value_enum, default_value = "answer")]
    at: Phase,
}

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let at = arguments.at;
    if at == Phase::Connect {
        return never_accept(arguments.listen).await;
    }
    let listener = listen::bind(arguments.listen).await?;
    listen::ready(&listener, None)?;
    listen::accept(listener, move |stream| hang(stream, at)).await
}

/// Fills the queue of the listener itself, so that nobody else gets in.
async fn never_accept(address: SocketAddr) -> Result<()> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.bind(address)?;
    let listener: TcpListener = socket.listen(1)?;
    let address = listener.local_addr()?;
    let mut queue = Vec::new();
    while let Ok(stream) = timeout(FULL, TcpStream::connect(address)).await {
        queue.push(stream?);
        if queue.len() > QUEUE {
            bail!("the system accepts more connections than it was told to; choose another phase");
        }
    }
    listen::ready(&listener, None)?;
    pending().await
}

async fn hang(mut stream: TcpStream, at: Phase) {
    let sent = match at {
        Phase::Connect | Phase::Accept => return pending().await,
        Phase::Answer => "",
        Phase::Head => "HTTP/1.1 200 OK\r\nContent-Le",
        Phase::Body => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ",
    };
    read_head(&mut stream).await;
    // A client that goes ends the connection, and nothing else.
    if stream.write_all(sent.as_bytes()).await.is_ok() {
        let _gone = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
}

/// Up to the empty line, or as far as it goes.
async fn read_head(stream: &mut TcpStream) {
    let mut stream = stream.take(HEAD);
    let mut last = [0; 4];
    while let Ok(byte) = stream.read_u8().await {
        last.rotate_left(1);
        last[3] = byte;
        if &last == b"\r\n\r\n" {
            return;
        }
    }
}
