//! A minimal HTTP client: one request per connection, the answer read to its end.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a server on this machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

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
/// Fails if there is no answer within half a minute, or none that is HTTP.
pub fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    send(address, "GET", path, "")
}

/// An address that nobody listens on. Its port is below those of outgoing connections, so that none of them takes it.
#[must_use]
pub fn free_address() -> SocketAddr {
    loop {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, fastrand::u16(15_000..30_000)));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Sends a request.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<Answer> {
    send_with(address, &format!("{method} {path}"), "", body)
}

/// Sends a request, which is a method and a path, with these header lines, each with its line end.
pub(crate) fn send_with(
    address: SocketAddr,
    request: &str,
    headers: &str,
    body: &str,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0, so the answer is not chunked, and the connection closes after it.
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.0\r\nHost: {address}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
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
