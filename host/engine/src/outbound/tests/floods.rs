//! Servers that send without end, in HTTP and below it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;

use super::super::exchange::{http_limit, wire_limit};
use super::super::{Part, RequestErrorKind, Response, Url};
use super::secure::Authority;
use super::server::{Script, Server, read_request, read_to_end, script};
use super::{ask, at, client, limits, url};

/// How many bytes sockets and the kernel buffer at most, on both sides.
const BUFFERED: usize = 16 << 20;

/// Reads a request, sends a text, then a piece again and again as fast as the client reads.
fn flood(first: &'static str, piece: &str) -> Script {
    let pieces = piece.repeat(4096_usize.div_ceil(piece.len()));
    script(move |mut stream| {
        let pieces = pieces.clone();
        async move {
            read_request(&mut *stream).await;
            let mut sent = stream.write_all(first.as_bytes()).await;
            while sent.is_ok() {
                sent = stream.write_all(pieces.as_bytes()).await;
            }
        }
    })
}

/// Sends bytes, then a piece again and again, whatever the client sends. Counts what it sent.
fn blind_flood(first: Vec<u8>, piece: &[u8]) -> (Script, Arc<AtomicUsize>) {
    let pieces = piece.repeat(4096_usize.div_ceil(piece.len()));
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let script = script(move |mut stream| {
        let (first, pieces, count) = (first.clone(), pieces.clone(), count.clone());
        async move {
            let mut written = stream.write_all(&first).await;
            while written.is_ok() {
                count.fetch_add(pieces.len(), Ordering::SeqCst);
                written = stream.write_all(&pieces).await;
            }
        }
    });
    (script, sent)
}

fn too_large(part: Part, limit: usize) -> RequestErrorKind {
    RequestErrorKind::TooLarge { part, limit }
}

fn tls_config() -> ServerConfig {
    Authority::new("ca.pem")
        .sign(&["a.example"], |_| ())
        .config()
}

fn secure(server: &Server) -> Url {
    url(&format!("https://{}/", server.address))
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn an_endless_head_or_body_is_cut_off() {
    let head = || too_large(Part::ResponseHead, limits().head_bytes);
    let body = || too_large(Part::ResponseBody, limits().response_bytes);
    for (first, piece, kind) in [
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n", head()),
        ("HTTP/1.1 200 OK\r\na: ", "b", head()),
        ("HTTP/1.1 200 ", "OK", head()),
        ("HTTP/1.1 200 OK\r\n\r\n", "a", body()),
        (CHUNKED, "1\r\na\r\n", body()),
    ] {
        let server = Server::start(flood(first, piece)).await;
        let found = ask(&client(limits()), &at(server.address)).await;
        assert_eq!(found.err().as_ref(), Some(&kind), "{first}");
        let server = Server::start_tls(tls_config(), flood(first, piece)).await;
        let found = ask(&client(limits()), &secure(&server)).await;
        assert_eq!(found.err(), Some(kind), "{first} over TLS");
    }
}

/// Sizes and extensions of chunks, trailers, informational responses: neither head nor body grows.
#[tokio::test]
async fn endless_framing_is_cut_off() {
    for (first, piece) in [
        (CHUNKED, "0"),
        (CHUNKED, "1;xxxxxxxxxxxxxxxx"),
        (CHUNKED, "1;x\r\n"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
            "a: b\r\n",
        ),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        let server = Server::start(flood(first, piece)).await;
        let found = ask(&client(limits()), &at(server.address)).await;
        assert!(is_cut_off(&found), "{first}{piece}: {found:?}");
    }
}

fn is_cut_off(found: &Result<Response, RequestErrorKind>) -> bool {
    matches!(
        found,
        Err(RequestErrorKind::BadResponse(_)
            | RequestErrorKind::TooLarge {
                part: Part::Received,
                ..
            })
    )
}

/// Bytes that TLS adds count too: a record for each byte makes much of a little HTTP.
#[tokio::test]
async fn endless_framing_of_tls_is_cut_off() {
    let body = "1\r\na\r\n".repeat(limits().response_bytes);
    let bytes = [CHUNKED, &body, "0\r\n\r\n"].concat();
    assert!(bytes.len() < http_limit(&limits()));
    let single_bytes = script(move |mut stream| {
        let bytes = bytes.clone();
        async move {
            read_request(&mut *stream).await;
            for byte in bytes.as_bytes() {
                if stream.write_all(&[*byte]).await.is_err() {
                    return;
                }
            }
        }
    });
    let server = Server::start(single_bytes.clone()).await;
    let found = ask(&client(limits()), &at(server.address)).await;
    assert_eq!(found.unwrap().body.len(), limits().response_bytes);
    let server = Server::start_tls(tls_config(), single_bytes).await;
    let found = ask(&client(limits()), &secure(&server)).await;
    let kind = too_large(Part::Received, http_limit(&limits()));
    assert_eq!(found.err(), Some(kind));
}

/// Session tickets come after the handshake and below HTTP. rustls has a limit of its own if they share records.
#[tokio::test]
async fn a_flood_of_session_tickets_is_cut_off() {
    let mut config = tls_config();
    config.send_tls13_tickets = 100 + wire_limit(&limits()) / 50;
    let silent = script(|mut stream| async move { read_to_end(&mut *stream).await });
    let server = Server::start_tls(config, silent).await;
    let found = ask(&client(limits()), &secure(&server)).await;
    assert!(is_cut_off(&found), "{found:?}");
}

/// A record of TLS 1.2, which is what records of TLS 1.3 look like too.
fn record(content_type: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[content_type, 3, 3], &length[..], content].concat()
}

#[tokio::test]
async fn an_endless_handshake_is_cut_off() {
    const CHANGE_CIPHER_SPEC: u8 = 20;
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    const APPLICATION_DATA: u8 = 23;
    let fragment = [0; 16_000];
    // A ServerHello that announces 16 MiB, in fragments.
    let announced = record(HANDSHAKE, &[2, 0xff, 0xff, 0xff]);
    for (first, piece) in [
        (announced, record(HANDSHAKE, &fragment)),
        (Vec::new(), record(HANDSHAKE, &[])),
        (Vec::new(), record(HANDSHAKE, &[0, 0, 0, 0])),
        (Vec::new(), record(CHANGE_CIPHER_SPEC, &[1])),
        (Vec::new(), record(ALERT, &[1, 90])),
        (Vec::new(), record(APPLICATION_DATA, &fragment)),
    ] {
        let content_type = piece[0];
        let (script, sent) = blind_flood(first, &piece);
        let server = Server::start(script).await;
        let found = ask(&client(limits()), &secure(&server)).await;
        assert!(
            matches!(found, Err(RequestErrorKind::Tls(_))),
            "{content_type}: {found:?}"
        );
        let sent = sent.load(Ordering::SeqCst);
        assert!(sent < wire_limit(&limits()) + BUFFERED, "{sent}");
    }
}
