//! `podloom-doubles hang`: a server that stops in the middle of a connection.

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use podloom_tests::doubles::HangPoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::listen;

/// The maximum length of a request's head.
const HEAD: u64 = 64 * 1024;
/// If a connection to our own listener takes longer than this, its queue is full.
const FULL: Duration = Duration::from_millis(300);
/// No system accepts more connections than this into a queue of one.
const QUEUE: usize = 16;

/// A server that stops at a chosen point of each connection, and keeps the connection open.
///
/// Clients without a timeout of their own wait for ever.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// The point where it stops.
    #[arg(long, value_enum, default_value = "answer")]
    at: HangPoint,
}

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let at = arguments.at;
    if at == HangPoint::Connect {
        return never_accept(arguments.listen).await;
    }
    let listener = listen::bind(arguments.listen).await?;
    listen::ready(&listener, None)?;
    listen::accept(listener, move |stream| hang(stream, at)).await
}

/// Fills the queue of its own listener, so that no other connection is accepted.
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
            bail!(
                "the system accepts more connections than its queue should hold; choose another --at"
            );
        }
    }
    listen::ready(&listener, None)?;
    pending().await
}

async fn hang(mut stream: TcpStream, at: HangPoint) {
    let sent = match at {
        HangPoint::Connect | HangPoint::Accept => return pending().await,
        HangPoint::Answer => "",
        HangPoint::Head => "HTTP/1.1 200 OK\r\nContent-Le",
        HangPoint::Body => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ",
    };
    read_head(&mut stream).await;
    // Keep the connection open until the client closes it.
    if stream.write_all(sent.as_bytes()).await.is_ok() {
        let _gone = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
}

/// Reads up to the empty line, or to the end.
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
