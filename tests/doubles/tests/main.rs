//! Tests of each double, as a binary.

#![expect(
    clippy::unwrap_used,
    reason = "this is test code: what goes wrong fails the test"
)]

mod balance;
mod command;
mod hang;
mod proxy;
mod relay;
mod sink;
mod tls;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long to wait for anything.
const SOON: Duration = Duration::from_secs(10);
/// How long to watch for what must not happen.
const WHILE: Duration = Duration::from_millis(100);

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// A TLS connection.
type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Connects to a double under this host name, up to the end of the TLS handshake; the client trusts the authority in the file.
fn connect_tls(address: SocketAddr, host: &str, authority: &Path) -> io::Result<TlsStream> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(authority).unwrap();
    roots.add(certificate).unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = ServerName::try_from(host.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), host).unwrap();
    let mut stream = connect(address);
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(client, stream))
}

/// Sends a request, and reads the answer until the connection closes.
fn send(stream: &mut (impl Read + Write), method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.0\r\nHost: double\r\nContent-Length: {length}");
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sends a request on a new connection, and returns the answer.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    send(&mut connect(address), method, path, body)
}

/// Waits until a condition holds.
fn soon(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
