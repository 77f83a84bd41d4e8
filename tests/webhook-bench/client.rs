//! Sends reviews as fast as the server answers them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::future::{BoxFuture, try_join_all};
use futures::{FutureExt, TryFutureExt};
use http::Uri;
use http::uri::Scheme;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::report::Figures;

/// A webhook server.
#[derive(Clone)]
pub(crate) struct Target {
    host: String,
    port: u16,
    path: String,
    /// None for HTTP without TLS.
    tls: Option<Arc<ClientConfig>>,
}

/// A number of connections that send reviews for some time.
pub(crate) struct Load {
    pub(crate) target: Target,
    pub(crate) review: String,
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

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
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

    fn request(&self, review: &Bytes) -> Result<Request<Full<Bytes>>> {
        let request = Request::post(&self.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(review.clone()))?;
        Ok(request)
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with its sender.
    tokio::spawn(connection.map_err(drop));
    Ok(sender)
}

impl Load {
    /// Sends the load. `pid` is the server's process, whose processor time is measured.
    pub(crate) async fn run(&self, pid: Option<u32>) -> Result<Figures> {
        let review = Bytes::from(self.review.clone());
        let mut senders =
            try_join_all((0..self.connections).map(|_| self.target.connect())).await?;
        for sender in &mut senders {
            self.check(sender, &review).await?;
        }
        let cpu_before = pid.map(cpu).transpose()?;
        let begun = Instant::now();
        let end = begun + self.time;
        let sending = senders
            .into_iter()
            .map(|sender| self.send_until(sender, &review, end));
        let tasks = sending.map(tokio::spawn);
        let all = try_join_all(tasks).await?;
        let took = begun.elapsed();
        let cpu_after = pid.map(cpu).transpose()?;
        let mut latencies = Vec::new();
        for sent in all {
            latencies.extend(sent?);
        }
        let cpu = cpu_before
            .zip(cpu_after)
            .map(|(before, after)| after.saturating_sub(before));
        Ok(Figures::of(latencies, took, cpu))
    }

    /// Checks that the server answers this review as it should: a server that refuses all of them would be fast.
    async fn check(&self, sender: &mut SendRequest<Full<Bytes>>, review: &Bytes) -> Result<()> {
        let response = sender.send_request(self.target.request(review)?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status != 200 || answer["response"]["allowed"] != true {
            bail!(
                "the server answered {status}: {}",
                String::from_utf8_lossy(&body)
            );
        }
        Ok(())
    }

    fn send_until(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        review: &Bytes,
        end: Instant,
    ) -> BoxFuture<'static, Result<Vec<Duration>>> {
        let (target, review) = (self.target.clone(), review.clone());
        async move {
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let sent = Instant::now();
                sender.ready().await?;
                let response = sender.send_request(target.request(&review)?).await?;
                let status = response.status();
                response.into_body().collect().await?;
                if status != 200 {
                    bail!("the server answered {status}");
                }
                latencies.push(sent.elapsed());
            }
            Ok(latencies)
        }
        .boxed()
    }
}

/// Ticks per second in /proc; 100 on every Linux that Rust supports.
const TICKS: f64 = 100.0;

/// The processor time that a process has used so far.
fn cpu(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} has ended"))?;
    // The name is in parentheses and may contain anything; utime and stime are the 14th and 15th field.
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields = after_name.split(' ').skip(11).take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks / TICKS))
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
