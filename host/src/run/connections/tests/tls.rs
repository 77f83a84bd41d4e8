//! TLS, HTTP/2, and how clients are sent to another server.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{HERE, HTTP_LIMITS, PATIENCE, Running, until};
use crate::run::connections::{ConnectionLimits, WhenFull};

struct Secure {
    running: Running,
    client: Arc<ClientConfig>,
    drain: CancellationToken,
}

impl Secure {
    fn start(protocol: &[u8]) -> Self {
        Self::start_with(protocol, Duration::MAX)
    }

    fn start_with(protocol: &[u8], read: Duration) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate: CertificateDer<'static> = cert.der().clone();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("they fit");
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("a root");
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![protocol.to_vec()];
        let limits = ConnectionLimits {
            when_full: WhenFull::CloseOldestIdle,
            life: Duration::MAX,
            read,
            ..HTTP_LIMITS
        };
        let (drain, end) = (CancellationToken::new(), CancellationToken::new());
        let tls = Some(Arc::new(server));
        Self {
            running: Running::start_with(limits, tls, drain.clone(), end),
            client: Arc::new(client),
            drain,
        }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = self.running.connect(HERE).await;
        let name = ServerName::try_from("localhost").expect("a name");
        let connector = TlsConnector::from(Arc::clone(&self.client));
        connector.connect(name, stream).await.expect("a handshake")
    }

    async fn http1(&self) -> http1::SendRequest<Body> {
        let stream = TokioIo::new(self.connect().await);
        let (sender, connection) = http1::handshake(stream).await.expect("a connection");
        tokio::spawn(connection);
        sender
    }

    async fn http2(&self) -> http2::SendRequest<Body> {
        let stream = TokioIo::new(self.connect().await);
        let handshake = http2::handshake(TokioExecutor::new(), stream);
        let (sender, connection) = handshake.await.expect("a connection");
        tokio::spawn(connection);
        sender
    }
}

fn request() -> Request<Body> {
    let request = Request::get("https://localhost/healthz").header("host", "localhost");
    request.body(Body::empty()).expect("a request")
}

#[track_caller]
fn is_well(response: &Response<Incoming>, version: Version) {
    let got = (response.status(), response.version());
    assert_eq!(got, (StatusCode::OK, version));
}

#[tokio::test]
async fn clients_choose_between_both_versions_of_http() {
    let server = Secure::start(b"http/1.1");
    let mut sender = server.http1().await;
    for _ in 0..3 {
        sender.ready().await.expect("it stays open");
        let response = sender.send_request(request()).await.expect("an answer");
        is_well(&response, Version::HTTP_11);
    }
    let server = Secure::start(b"h2");
    let mut sender = server.http2().await;
    for _ in 0..3 {
        let response = sender.send_request(request()).await.expect("an answer");
        is_well(&response, Version::HTTP_2);
    }
}

#[tokio::test]
async fn while_draining_http1_connections_close_after_their_next_answer() {
    let server = Secure::start(b"http/1.1");
    let (mut open, mut idle) = (server.http1().await, server.http1().await);
    server.drain.cancel();
    let response = open.send_request(request()).await.expect("an answer");
    is_well(&response, Version::HTTP_11);
    assert_eq!(response.headers()["connection"], "close");
    drop(response);
    until("it is closed", async || open.is_closed()).await;
    assert!(!idle.is_closed(), "a request may be on its way");
    let response = idle.send_request(request()).await.expect("an answer");
    is_well(&response, Version::HTTP_11);
    let mut new = server.http1().await;
    is_well(
        &new.send_request(request()).await.expect("an answer"),
        Version::HTTP_11,
    );
}

#[tokio::test]
async fn while_draining_http2_connections_take_no_new_requests() {
    let server = Secure::start(b"h2");
    let mut open = server.http2().await;
    is_well(
        &open.send_request(request()).await.expect("an answer"),
        Version::HTTP_2,
    );
    server.drain.cancel();
    until("it is closed", async || open.ready().await.is_err()).await;
    let mut new = server.http2().await;
    is_well(
        &new.send_request(request()).await.expect("an answer"),
        Version::HTTP_2,
    );
}

#[tokio::test]
async fn stopping_ends_all_connections() {
    let mut server = Secure::start(b"http/1.1");
    let idle = server.http1().await;
    server.drain.cancel();
    server.running.end.cancel();
    let ended = timeout(PATIENCE, server.running.tasks.join_next()).await;
    assert!(matches!(ended, Ok(Some(Ok(())))));
    until("it is closed", async || idle.is_closed()).await;
}

/// Seen: with 32 such streams on each of 100 connections, the process took 300 MiB more in 44 seconds.
#[tokio::test]
async fn an_answer_that_nobody_reads_ends_its_connection_in_seconds() {
    let server = Secure::start_with(b"h2", Duration::from_millis(200));
    for window in [0, 1, 50_000] {
        let stream = TokioIo::new(server.connect().await);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let handshake = builder.initial_stream_window_size(window).handshake(stream);
        let (mut sender, connection) = handshake.await.expect("a connection");
        let connection = tokio::spawn(connection);
        let request = Request::get("https://localhost/large").body(Body::empty());
        let sent = sender.send_request(request.expect("a request"));
        let response = sent.await.expect("the head of an answer");
        let ended = timeout(PATIENCE, connection).await;
        assert!(ended.is_ok(), "with a window of {window} bytes");
        drop(response);
    }
}
