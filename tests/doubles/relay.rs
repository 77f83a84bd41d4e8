//! `podloom-doubles relay`: a relay of gosuda/portal, truthful or not.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use podloom_tests::doubles::{ReceivedRequest, ReceivedRequests, RelayApi, RelayBehaviour};
use podloom_tests::lock;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::control::{self, ControlError, Steered};
use crate::listen;
use crate::tls::authority;

/// How many requests are kept; the oldest are dropped first.
const KEPT: usize = 1000;
/// How long a handshake may take, and the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// A relay of gosuda/portal with TLS: it answers which hostnames it serves, as it is told.
///
/// Connections to a hostname that it serves reach a tunnel that answers 200; those to other hostnames are refused in the TLS handshake.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    listen: SocketAddr,
    /// The address of the control endpoint: GET /requests, DELETE /requests, PUT /behaviour.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::loopback)]
    control: SocketAddr,
    /// The file to write: the certificate authority for clients to trust.
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// The host of the relay itself.
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    host: String,
    /// A hostname that the relay may serve; may be repeated.
    #[arg(long = "tunnel", value_name = "HOST")]
    tunnels: Vec<String>,
}

const EXAMPLES: &str = r#"Examples:
  podloom-doubles relay --ca ca.pem --host relay.localhost --tunnel app.relay.localhost --listen 127.0.0.1:8443 --control 127.0.0.1:9000
  curl --cacert ca.pem https://relay.localhost:8443/api/state

  # Serve a hostname with one tunnel
  curl -X PUT localhost:9000/behaviour --data '{"leases": {"app.relay.localhost": 1}}'

  # Be an old relay without /api/state. More: domain, website, error, garbage, redirect, hang
  curl -X PUT localhost:9000/behaviour --data '{"api": "status", "leases": {"app.relay.localhost": 1}}'

  # The requests so far, as JSON
  curl localhost:9000/requests"#;

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let relay = Arc::new(RelayServer::default());
    let acceptor = TlsAcceptor::from(Arc::new(config(arguments, &relay)?));
    let (listener, control) = (
        listen::bind(arguments.listen).await?,
        listen::bind(arguments.control).await?,
    );
    listen::ready(&listener, Some(&control))?;
    let served = Arc::clone(&relay);
    let serve = move |stream| Arc::clone(&served).serve(stream, acceptor.clone());
    tokio::try_join!(
        listen::accept(listener, serve),
        control::serve(control, relay)
    )?;
    Ok(())
}

/// Creates the certificates, and writes the authority's to its file.
fn config(arguments: &Arguments, relay: &Arc<RelayServer>) -> Result<ServerConfig> {
    let (certificate, issuer) = authority("podloom-doubles")?;
    std::fs::write(&arguments.ca, certificate.pem())
        .with_context(|| arguments.ca.display().to_string())?;
    let names = [std::slice::from_ref(&arguments.host), &arguments.tunnels].concat();
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = ring::default_provider();
    let chain = vec![certificate.der().clone()];
    let by_name = ByName {
        relay: Arc::clone(relay),
        host: arguments.host.clone(),
        key: Arc::new(CertifiedKey::from_der(chain, key, &provider)?),
    };
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    Ok(config.with_cert_resolver(Arc::new(by_name)))
}

/// Has a certificate for the relay itself and for hostnames that it serves, and refuses others.
struct ByName {
    relay: Arc<RelayServer>,
    host: String,
    key: Arc<CertifiedKey>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?;
        let is_known = name == self.host || self.relay.serves(name);
        is_known.then(|| Arc::clone(&self.key))
    }
}

impl fmt::Debug for ByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByName")
    }
}

/// A relay: what it answers, and the requests that it received.
#[derive(Default)]
struct RelayServer {
    behaviour: Mutex<RelayBehaviour>,
    count: Mutex<u64>,
    requests: Mutex<VecDeque<ReceivedRequest>>,
}

type Answer = Response<Full<Bytes>>;

impl RelayServer {
    /// Whether a tunnel is connected that serves this hostname.
    fn serves(&self, hostname: &str) -> bool {
        let behaviour = lock(&self.behaviour);
        behaviour
            .leases
            .get(hostname)
            .is_some_and(|ready| *ready > 0)
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, acceptor: TlsAcceptor) {
        let Ok(Ok(stream)) = timeout(PATIENCE, acceptor.accept(stream)).await else {
            return;
        };
        let name = stream
            .get_ref()
            .1
            .server_name()
            .unwrap_or_default()
            .to_owned();
        let service = service_fn(|request| self.answer(&name, request));
        // It fails if the client disconnects, which is not our error.
        let _gone = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(&self, name: &str, request: Request<Incoming>) -> Result<Answer, Infallible> {
        self.record(&request);
        if self.serves(name) {
            return Ok(plain(StatusCode::OK, "the application"));
        }
        let RelayBehaviour { api, leases } = lock(&self.behaviour).clone();
        let uri = request.uri();
        Ok(match (api, uri.path()) {
            (RelayApi::Hang, _) => pending().await,
            (RelayApi::Error, _) => plain(StatusCode::SERVICE_UNAVAILABLE, "too busy"),
            (RelayApi::Garbage, _) => json(r#"{"ok": "maybe", "data": [[]]}"#.to_owned()),
            (RelayApi::Redirect, _) => redirect(),
            (RelayApi::State, "/api/state") => {
                let leases = leases.iter();
                let leases =
                    leases.map(|(hostname, ready)| json!({ "hostname": hostname, "ready": ready }));
                envelope(&json!({ "leases": leases.collect::<Vec<_>>() }))
            }
            (RelayApi::Status, "/tunnel/status") => {
                let query = uri.query().unwrap_or_default();
                let hostname = query.strip_prefix("hostname=").unwrap_or_default();
                let ready = leases.get(hostname);
                envelope(&json!({
                    "hostname": hostname,
                    "registered": ready.is_some(),
                    "service_alive": ready.is_some_and(|ready| *ready > 0),
                }))
            }
            (RelayApi::State | RelayApi::Status | RelayApi::Domain, "/sdk/domain") => {
                envelope(&json!({ "protocol_version": "1", "release_version": "v0.0.0" }))
            }
            _ => website(),
        })
    }

    fn record(&self, request: &Request<Incoming>) {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = request.headers().iter();
        let received = ReceivedRequest {
            method: request.method().to_string(),
            path: request.uri().to_string(),
            headers: headers
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
            body: String::new(),
            length: 0,
        };
        *lock(&self.count) += 1;
        let mut requests = lock(&self.requests);
        if requests.len() == KEPT {
            requests.pop_front();
        }
        requests.push_back(received);
    }
}

impl Steered for RelayServer {
    fn steer(&self, method: &Method, path: &str, body: &[u8]) -> Result<String, ControlError> {
        match (method, path) {
            (&Method::GET, "/requests") => control::json(&ReceivedRequests {
                count: *lock(&self.count),
                requests: lock(&self.requests).iter().cloned().collect(),
            }),
            (&Method::DELETE, "/requests") => {
                *lock(&self.count) = 0;
                lock(&self.requests).clear();
                control::done()
            }
            (&Method::PUT, "/behaviour") => {
                *lock(&self.behaviour) = control::read(body)?;
                control::done()
            }
            _ => Err(ControlError::Unknown),
        }
    }
}

fn plain(status: StatusCode, body: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = status;
    answer
}

/// The start page, which relays serve under every path that they do not know.
fn website() -> Answer {
    let mut answer = plain(StatusCode::OK, "<!doctype html><title>A relay</title>");
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, html);
    answer
}

fn redirect() -> Answer {
    let mut answer = plain(StatusCode::FOUND, "");
    let elsewhere = HeaderValue::from_static("https://elsewhere.localhost/");
    answer.headers_mut().insert(LOCATION, elsewhere);
    answer
}

fn envelope(data: &serde_json::Value) -> Answer {
    json(json!({ "ok": true, "data": data }).to_string())
}

fn json(body: String) -> Answer {
    let mut answer = Response::new(Full::from(body));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}
