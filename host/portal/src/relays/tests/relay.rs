//! A relay on loopback that does what the test says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podloom_engine::outbound::{Pem, Roots, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// A word that only the relay says.
pub(super) const THEIRS: &str = "wordofrelay";

/// Which paths a relay has, or what it does instead of answering.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// `/api/state`, and its website under all other paths.
    State,
    /// `/tunnel/status` and `/sdk/domain`, and its website under all other paths.
    Status,
    /// The same, but it answers 500 about these hostnames.
    Fails(&'static [&'static str]),
    /// The same as `Status`, and an `/api/state` that is larger than what is read.
    Crowded,
    /// `/sdk/domain` alone, and 404 for all other paths.
    Domain,
    /// Its website under every path.
    Website,
    /// This response to everything.
    Says(Vec<u8>),
    /// Nothing, for ever.
    Hangs,
    /// It closes each connection after the request.
    Closes,
}

#[derive(Default)]
struct Shared {
    manner: Mutex<Option<Manner>>,
    /// Hostnames with their ready connections.
    leases: Mutex<BTreeMap<String, i64>>,
    requests: Mutex<Vec<Seen>>,
    /// How many connections are open, and how many were at once.
    open: Mutex<(usize, usize)>,
}

/// A request that came.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    /// Method and target.
    pub(super) line: String,
    pub(super) host: String,
}

/// It is gone when it is dropped.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An authority of certificates, and a certificate of it for some names.
pub(super) struct Certificates {
    authority: Pem,
    key: Arc<CertifiedKey>,
}

impl Certificates {
    pub(super) fn new(names: &[&str]) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let leaf = params.signed_by(&key, &issuer).unwrap();
        let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = ring::default_provider();
        let key = CertifiedKey::from_der(vec![leaf.der().clone()], der, &provider).unwrap();
        let pem = certificate.pem().into_bytes();
        Self {
            authority: Pem::new("authority".to_owned(), pem).unwrap(),
            key: Arc::new(key),
        }
    }

    /// What a client that trusts the authority needs.
    pub(super) fn tls(&self) -> Tls {
        Tls::new(&Roots::Only(&self.authority), None).unwrap()
    }
}

/// A relay hands the connections of hostnames with a lease to the tunnel, and drops those of others.
struct BySni {
    shared: Arc<Shared>,
    key: Arc<CertifiedKey>,
}

impl std::fmt::Debug for BySni {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BySni")
    }
}

impl ResolvesServerCert for BySni {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?;
        let is_relay = !name.starts_with("app");
        let is_served = self.shared.leases.lock().unwrap().contains_key(name);
        (is_relay || is_served).then(|| self.key.clone())
    }
}

impl Relay {
    pub(super) async fn start(certificates: &Certificates, manner: Manner) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        *shared.manner.lock().unwrap() = Some(manner);
        let by_sni = BySni {
            shared: shared.clone(),
            key: certificates.key.clone(),
        };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(by_sni));
        let tls = TlsAcceptor::from(Arc::new(config));
        let served = shared.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, tls.clone(), served.clone()));
            }
        });
        Self {
            address,
            shared,
            task,
        }
    }

    /// Closes its port, and all connections.
    pub(super) fn vanish(&self) {
        self.task.abort();
    }

    pub(super) fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = Some(manner);
    }

    /// Replaces the leases: hostnames with their ready connections.
    pub(super) fn lease(&self, leases: &[(&str, i64)]) {
        let owned = leases
            .iter()
            .map(|(host, ready)| ((*host).to_owned(), *ready));
        *self.shared.leases.lock().unwrap() = owned.collect();
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The requests without repetitions, in alphabetical order.
    pub(super) fn lines(&self) -> BTreeSet<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    /// How many connections were open at once.
    pub(super) fn most_open(&self) -> usize {
        self.shared.open.lock().unwrap().1
    }

    /// Waits until so many requests have come.
    pub(super) async fn await_requests(&self, count: usize) {
        while self.seen().len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    {
        let mut open = shared.open.lock().unwrap();
        open.0 += 1;
        open.1 = open.1.max(open.0);
    }
    // A handshake that fails is the client's problem.
    if let Ok(mut stream) = tls.accept(stream).await {
        let name = stream.get_ref().1.server_name().map(str::to_owned);
        let head = read_head(&mut stream).await;
        let line = head.lines().next().unwrap_or_default();
        let line = line.trim_end_matches(" HTTP/1.1").to_owned();
        let host = head.lines().find_map(|line| line.strip_prefix("host: "));
        let seen = Seen {
            at: Instant::now(),
            line: line.clone(),
            host: host.unwrap_or_default().to_owned(),
        };
        shared.requests.lock().unwrap().push(seen);
        if let Some(bytes) = answer(&shared, &name.unwrap_or_default(), &line).await {
            // The client may have closed the connection already.
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
    }
    shared.open.lock().unwrap().0 -= 1;
}

async fn read_head<S: AsyncReadExt + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => break,
        }
        if bytes.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The response, or none to close the connection without one.
async fn answer(shared: &Shared, name: &str, line: &str) -> Option<Vec<u8>> {
    if name.starts_with("app") {
        // This is the tunnel, whose application wants a login.
        return Some(response(401, "text/plain", ""));
    }
    let manner = shared.manner.lock().unwrap().clone().unwrap();
    let leases = shared.leases.lock().unwrap().clone();
    let website = || {
        Some(response(
            200,
            "text/html; charset=utf-8",
            &format!("<p>{THEIRS}"),
        ))
    };
    match (manner, line) {
        (Manner::Hangs, _) => std::future::pending().await,
        (Manner::Closes, _) => None,
        (Manner::Says(bytes), _) => Some(bytes),
        (Manner::State, "GET /api/state") => Some(envelope(&json!({ "leases": leases
            .iter()
            .map(|(hostname, ready)| json!({ "hostname": hostname, "ready": ready, "name": THEIRS }))
            .collect::<Vec<_>>() }))),
        (Manner::Crowded, "GET /api/state") => Some(response(
            200,
            "application/json",
            &" ".repeat(4 * 1024 * 1024 + 1),
        )),
        (Manner::Fails(hostnames), line)
            if line.starts_with("GET /tunnel/status?hostname=")
                && hostnames.iter().any(|hostname| line.ends_with(hostname)) =>
        {
            Some(response(500, "application/json", THEIRS))
        }
        (Manner::Status | Manner::Crowded | Manner::Fails(_), line)
            if line.starts_with("GET /tunnel/status?hostname=") =>
        {
            let (_, hostname) = line.split_once('=').unwrap();
            let ready = leases.get(hostname);
            Some(envelope(&json!({
                "hostname": hostname,
                "registered": ready.is_some(),
                "service_alive": ready.is_some_and(|ready| *ready > 0),
            })))
        }
        (
            Manner::Status | Manner::Crowded | Manner::Fails(_) | Manner::Domain,
            "GET /sdk/domain",
        ) => Some(envelope(
            &json!({ "protocol_version": "1", "release_version": THEIRS }),
        )),
        (Manner::Domain, _) => Some(response(404, "text/plain", THEIRS)),
        (
            Manner::State | Manner::Status | Manner::Crowded | Manner::Fails(_) | Manner::Website,
            _,
        ) => website(),
    }
}

fn envelope(data: &Value) -> Vec<u8> {
    let body = json!({ "ok": true, "data": data }).to_string();
    response(200, "application/json", &body)
}

pub(super) fn response(status: u16, media: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {THEIRS}\r\ncontent-type: {media}\r\nx-more: {THEIRS}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
