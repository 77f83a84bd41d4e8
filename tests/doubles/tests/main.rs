//! Each double, as the binary that it is.

#![expect(
    clippy::unwrap_used,
    reason = "what the tests share fails as the tests themselves do"
)]

mod balance;
mod command;
mod hang;
mod proxy;
mod sink;
mod tls;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long anything may take here.
const SOON: Duration = Duration::from_secs(10);
/// How long is looked at what must not happen.
const WHILE: Duration = Duration::from_millis(100);

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// Sends a request that is answered until the connection ends.
fn send(stream: &mut (impl Read + Write), method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.0\r\nHost: double\r\nContent-Length: {length}");
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What a new connection is answered.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    send(&mut connect(address), method, path, body)
}

/// Waits until something is so.
fn soon(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
