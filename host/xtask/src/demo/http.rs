//! Requests to servers of the demo, all on this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// An address for a server. Another process could take the port in between; then the server fails and its log says why.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Sends a request, which is a method and a path, with these header lines, each with its line end.
pub(crate) fn send(server: SocketAddr, request: &str, headers: &str, body: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0, so the answer is not chunked, and the connection closes after it.
    write!(
        stream,
        "{request} HTTP/1.0\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    read(&answer).with_context(|| format!("{request}: the answer is not HTTP: {answer}"))
}

fn read(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some(Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        body: body.to_owned(),
    })
}
