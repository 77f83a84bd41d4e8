//! A minimal HTTP client: one request per connection, the answer read to its end.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server on this machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The answer to a request.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends a GET request.
///
/// # Errors
///
/// Fails if there is no answer within ten seconds, or none that is HTTP.
pub fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    send(address, "GET", path, "")
}

/// Sends a request.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0, so the answer is not chunked, and the connection closes after it.
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(bad)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(bad)?,
        body: body.to_owned(),
    })
}
