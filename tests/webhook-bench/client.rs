//! Sends reviews as fast as the server answers them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryFutureExt;
use futures::future::try_join_all;
use http::Uri;
use http::uri::Scheme;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use podloom_tests::usage::usage;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::report::Figures;

/// A connection.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// What an answer says that lets the object pass.
const ALLOWED: &[u8] = br#""allowed":true"#;

/// A webhook server.
#[derive(Clone)]
pub(crate) struct Target {
    host: String,
    port: u16,
    path: String,
    /// None for HTTP without TLS.
    tls: Option<Arc<ClientConfig>>,
}

/// A number of connections that send reviews for some time, each the next one as soon as it has an answer.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) target: Target,
    pub(crate) review: Bytes,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
}

impl Target {
    pub(crate) fn of(url: &Uri) -> Result<Self> {
        let is_tls = url.scheme() == Some(&Scheme::HTTPS);
        let host = url.host().context("the URL has no host")?.to_owned();
        let default = if is_tls { 443 } else { 80 };
        Ok(Self {
            host,
            port: url.port_u16().unwrap_or(default),
            path: url
                .path_and_query()
                .map_or_else(|| "/".to_owned(), ToString::to_string),
            tls: is_tls.then(unchecked).transpose()?,
        })
    }

    pub(crate) async fn connect(&self) -> Result<Sender> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => speak(stream).await,
            Some(config) => {
                let name = ServerName::try_from(self.host.clone())?;
                let connector = TlsConnector::from(Arc::clone(config));
                speak(connector.connect(name, stream).await?).await
            }
        }
    }

    /// So many connections, each of which has answered this review already.
    pub(crate) async fn connections(&self, count: usize, review: &Bytes) -> Result<Vec<Sender>> {
        let mut senders = try_join_all((0..count).map(|_| self.connect())).await?;
        for sender in &mut senders {
            self.ask(sender, review).await?;
        }
        Ok(senders)
    }

    /// Sends a review and returns the answer. It must allow the object: a server that refuses all of them would be fast.
    pub(crate) async fn ask(&self, sender: &mut Sender, review: &Bytes) -> Result<Bytes> {
        sender.ready().await?;
        let response = sender.send_request(self.request(review)?).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        let is_allowed = answer.windows(ALLOWED.len()).any(|part| part == ALLOWED);
        if status != 200 || !is_allowed {
            let answer = String::from_utf8_lossy(&answer);
            bail!("the server answered {status}: {answer}");
        }
        Ok(answer)
    }

    fn request(&self, review: &Bytes) -> Result<Request<Full<Bytes>>> {
        let request = Request::post(&self.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(review.clone()))?;
        Ok(request)
    }
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Sender> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with its sender.
    tokio::spawn(connection.map_err(drop));
    Ok(sender)
}

impl Load {
    /// Sends the load. `pid` is the server's process, whose processor time is measured.
    pub(crate) async fn run(&self, pid: Option<u32>) -> Result<Figures> {
        let senders = self
            .target
            .connections(self.connections, &self.review)
            .await?;
        let meter = Meter::start(pid)?;
        let end = Instant::now() + self.time;
        let sending = senders
            .into_iter()
            .map(|sender| self.clone().send_until(sender, end));
        let mut latencies = Vec::new();
        for sent in try_join_all(sending.map(tokio::spawn)).await? {
            latencies.extend(sent?);
        }
        meter.figures(latencies, 0)
    }

    async fn send_until(self, mut sender: Sender, end: Instant) -> Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        while Instant::now() < end {
            let sent = Instant::now();
            self.target.ask(&mut sender, &self.review).await?;
            latencies.push(sent.elapsed());
        }
        Ok(latencies)
    }
}

/// Measures a server from its start on.
pub(crate) struct Meter {
    pid: Option<u32>,
    begun: Instant,
    cpu: Option<Duration>,
}

impl Meter {
    pub(crate) fn start(pid: Option<u32>) -> Result<Self> {
        let cpu = pid.map(cpu).transpose()?;
        let begun = Instant::now();
        Ok(Self { pid, begun, cpu })
    }

    pub(crate) fn figures(self, latencies: Vec<Duration>, failures: usize) -> Result<Figures> {
        let took = self.begun.elapsed();
        let after = self.pid.map(cpu).transpose()?;
        let used = self.cpu.zip(after).map(|(before, after)| after - before);
        Ok(Figures::of(latencies, failures, took, used))
    }
}

fn cpu(pid: u32) -> Result<Duration> {
    Ok(usage(pid)?.cpu)
}

/// A client that accepts every certificate: only time is measured here.
fn unchecked() -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Unchecked(provider.signature_verification_algorithms);
    let config = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Unchecked(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
