//! Probes of servers that are API servers, and of others.

use std::sync::{Arc, Mutex};

use podloom_engine::outbound::{OutboundMetrics, SystemResolver};
use prometheus_client::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::im::ImRules;
use crate::kubeconfig::{Probed, Prober};

const VERSION: &str = r#"{"major":"1","gitVersion":"v1.33.0"}"#;

/// A server that gives one answer to each request, until it is dropped.
struct Server {
    port: u16,
    heard: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts one that answers with this status line, headers and body; it never answers if that is empty.
    async fn start(answer: String, tls: Option<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&heard);
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let heard = match &tls {
                    None => serve(stream, &answer).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => serve(stream, &answer).await,
                        Err(_) => continue,
                    },
                };
                *kept.lock().unwrap() = heard;
            }
        });
        Self { port, heard, task }
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => break,
        }
    }
    if answer.is_empty() {
        std::future::pending::<()>().await;
    }
    // The client may be gone.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    String::from_utf8(bytes).unwrap()
}

fn answer(head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn prober(allow: &[&str]) -> Prober {
    let allow = allow.iter().map(|cidr| cidr.parse().unwrap()).collect();
    let rules = ImRules {
        allow,
        ..ImRules::default()
    };
    let metrics = OutboundMetrics::register(&mut Registry::default());
    Prober::new(&rules, Arc::new(SystemResolver::default()), metrics)
}

async fn probe(cluster: Value, user: Value) -> Probed {
    let mut text = kubeconfig();
    text["clusters"][0]["cluster"] = cluster;
    text["users"][0]["user"] = user;
    let kubeconfig = Kubeconfig::of_output(Some(&text)).unwrap();
    prober(&["127.0.0.0/8"]).probe(&kubeconfig, "team").await
}

#[tokio::test]
async fn an_api_server_is_asked_for_its_version_with_the_account_of_the_kubeconfig() {
    let server = Server::start(answer("200 OK", VERSION), None).await;
    for (user, login) in [
        (json!({ "token": "t0ken" }), "authorization: Bearer t0ken"),
        (
            json!({ "username": "a", "password": "b" }),
            "authorization: Basic YTpi",
        ),
        (
            json!({ "token": "t0ken", "username": "a", "password": "b" }),
            "authorization: Bearer t0ken",
        ),
    ] {
        let url = format!("http://127.0.0.1:{}/at/", server.port);
        assert_eq!(probe(json!({ "server": url }), user).await, Probed::Answers);
        let heard = server.heard.lock().unwrap().clone();
        assert!(heard.starts_with("GET /at/version HTTP/1.1\r\n"), "{heard}");
        assert!(heard.contains(login), "{heard}");
    }
}

#[tokio::test]
async fn what_is_no_api_server_does_not_answer() {
    for (given, expected) in [
        (
            answer("401 X", "s3cr3t-token"),
            "the API server answers with HTTP 401",
        ),
        (answer("500 X", ""), "the API server answers with HTTP 500"),
        (answer("200 OK", "<html>"), "what answers is no API server"),
        (
            answer("200 OK", r#"{"version":1}"#),
            "what answers is no API server",
        ),
        (
            answer("302 X\r\nlocation: https://s3cr3t.example.com/", ""),
            "the API server does not answer: it answered 302; redirects are not followed",
        ),
        (
            "no HTTP\r\n\r\n".to_owned(),
            "the API server does not answer: the response is not HTTP",
        ),
    ] {
        let server = Server::start(given, None).await;
        let url = format!("http://127.0.0.1:{}", server.port);
        let found = probe(json!({ "server": url }), json!({ "token": "s3cr3t-token" })).await;
        assert_eq!(found, Probed::Fails(expected.to_owned()));
    }
}

/// Time is only as long as nothing else can happen.
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up_after_five_seconds() {
    let server = Server::start(String::new(), None).await;
    let url = format!("http://127.0.0.1:{}", server.port);
    let begun = tokio::time::Instant::now();
    let found = probe(json!({ "server": url }), json!({})).await;
    assert!(
        matches!(&found, Probed::Fails(why) if why.contains("5000 ms")),
        "{found:?}"
    );
    assert!(begun.elapsed().as_secs() < 10);
}

/// Users choose whom the operator asks.
#[tokio::test]
async fn addresses_of_the_operators_own_machine_are_not_asked() {
    let server = Server::start(answer("200 OK", VERSION), None).await;
    for host in [
        &format!("127.0.0.1:{}", server.port),
        "169.254.169.254",
        "[::1]:80",
    ] {
        let mut text = kubeconfig();
        text["clusters"][0]["cluster"] = json!({ "server": format!("http://{host}") });
        let kubeconfig = Kubeconfig::of_output(Some(&text)).unwrap();
        let found = prober(&[]).probe(&kubeconfig, "team").await;
        assert!(
            matches!(&found, Probed::Fails(why) if why.contains("blocked")),
            "{found:?}"
        );
    }
    assert_eq!(*server.heard.lock().unwrap(), "");
}

/// An authority with a certificate for this name, and one for a client.
struct Authority {
    pem: String,
    server: ServerConfig,
    client: (String, String),
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let sign = |names: Vec<String>| {
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(names).unwrap();
        (signed.signed_by(&key, &issuer).unwrap(), key)
    };
    let mut clients = RootCertStore::empty();
    clients.add(root.der().clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(clients), provider.clone());
    let (certificate, key) = sign(vec![name.to_owned()]);
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let (certificate, key) = sign(Vec::new());
    Authority {
        pem: root.pem(),
        server,
        client: (certificate.pem(), key.serialize_pem()),
    }
}

#[tokio::test]
async fn certificates_are_checked_as_the_kubeconfig_says() {
    use base64::Engine as _;
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let (mine, other) = (authority("kubernetes.test"), authority("kubernetes.test"));
    let server = Server::start(answer("200 OK", VERSION), Some(mine.server)).await;
    let url = format!("https://127.0.0.1:{}/at", server.port);
    let user = json!({
        "client-certificate-data": encoded(&mine.client.0),
        "client-key-data": encoded(&mine.client.1),
    });
    let trusted = |pem: &str, name: Option<&str>| json!({ "server": url, "certificate-authority-data": encoded(pem), "tls-server-name": name });
    let named = Some("kubernetes.test");
    assert_eq!(
        probe(trusted(&mine.pem, named), user.clone()).await,
        Probed::Answers
    );
    let heard = server.heard.lock().unwrap().clone();
    assert!(heard.starts_with("GET /at/version "), "{heard}");
    let unchecked = json!({ "server": url, "insecure-skip-tls-verify": true });
    assert_eq!(probe(unchecked, user.clone()).await, Probed::Answers);
    for cluster in [
        trusted(&mine.pem, None),
        trusted(&mine.pem, Some("other.test")),
        trusted(&other.pem, named),
        json!({ "server": url }),
    ] {
        let found = probe(cluster.clone(), user.clone()).await;
        assert!(matches!(found, Probed::Fails(_)), "{cluster}");
    }
    // A certificate of somebody else is not accepted by the server.
    let stranger = json!({
        "client-certificate-data": encoded(&other.client.0),
        "client-key-data": encoded(&other.client.1),
    });
    let found = probe(trusted(&mine.pem, named), stranger).await;
    assert!(matches!(found, Probed::Fails(_)), "{found:?}");
}

/// A server's own certificate, and what it needs to serve with it.
fn server_of(
    params: &CertificateParams,
    issuer: Option<&Issuer<'_, KeyPair>>,
) -> (String, ServerConfig) {
    let key = KeyPair::generate().unwrap();
    let certificate = match issuer {
        Some(issuer) => params.signed_by(&key, issuer).unwrap(),
        None => params.self_signed(&key).unwrap(),
    };
    let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        );
    (certificate.pem(), server.unwrap())
}

/// As `kubectl` does: it takes a certificate in certificate-authority-data for that of the server, too.
#[tokio::test]
async fn a_server_whose_own_certificate_is_listed_is_trusted() {
    use base64::Engine as _;
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let named = || CertificateParams::new(vec!["kubernetes.test".to_owned()]).unwrap();
    let mut authority = named();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority.clone(), KeyPair::generate().unwrap());
    let mut expired = named();
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let (other, _) = server_of(&named(), None);
    for (params, issuer, is_trusted) in [
        (named(), None, true),
        (named(), Some(&issuer), true),
        (authority, None, true),
        (expired, None, false),
    ] {
        let (own, config) = server_of(&params, issuer);
        let server = Server::start(answer("200 OK", VERSION), Some(config)).await;
        let url = format!("https://127.0.0.1:{}", server.port);
        let asked = async |pem: &str, name: &str| {
            let authority = encoded(pem);
            let cluster = json!({ "server": url, "certificate-authority-data": authority, "tls-server-name": name });
            probe(cluster, json!({})).await == Probed::Answers
        };
        assert_eq!(asked(&own, "kubernetes.test").await, is_trusted);
        assert_eq!(
            asked(&format!("{other}{own}"), "kubernetes.test").await,
            is_trusted
        );
        assert!(!asked(&own, "other.test").await);
        assert!(!asked(&other, "kubernetes.test").await);
    }
}

#[test]
fn a_certificate_or_key_that_cannot_be_used_is_named() {
    use base64::Engine as _;
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let mut text = kubeconfig();
    text["clusters"][0]["cluster"]["certificate-authority-data"] = encoded("s3cr3t").into();
    let problem = Kubeconfig::of_output(Some(&text)).unwrap_err().to_string();
    assert_eq!(
        problem,
        "the kubeconfig cannot be used: certificate-authority-data has no certificate; it must have a block that begins with -----BEGIN CERTIFICATE-----"
    );
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_of_a_kubeconfig_is_ever_shown() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut shown = String::new();
    for given in [
        answer("200 OK", VERSION),
        answer("401 s3cr3t", "s3cr3t"),
        "s3cr3t\r\n\r\n".to_owned(),
    ] {
        let server = Server::start(given, None).await;
        let mut text = kubeconfig();
        let url = format!("http://127.0.0.1:{}/s3cr3t", server.port);
        text["clusters"][0]["cluster"]["server"] = url.into();
        let kubeconfig = Kubeconfig::of_output(Some(&text)).unwrap();
        let found = prober(&["127.0.0.0/8"]).probe(&kubeconfig, "team").await;
        shown += &format!("{kubeconfig:?} {found:?}");
        assert!(server.heard.lock().unwrap().contains("Bearer s3cr3t-token"));
    }
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!logged.is_empty());
    assert!(
        !shown.contains("s3cr3t") && !logged.contains("s3cr3t"),
        "{shown}\n{logged}"
    );
}
