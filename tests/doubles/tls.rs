//! `podloom-doubles tls`: the sink with TLS, or TLS in front of another server, with a valid or a flawed certificate.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::sink::{SinkOptions, SinkServer};
use crate::{control, listen};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The sink with TLS, or TLS in front of another server. It creates a new certificate at each start.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sink: SinkOptions,
    /// The file to write: the certificate authority for clients to trust.
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// Forward what is sent to this server, without TLS, instead of answering like the sink.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<SocketAddr>,
    /// A name or address that the certificate is for; may be repeated.
    #[arg(long = "name", value_name = "HOST", default_values = ["localhost", "127.0.0.1", "::1"])]
    names: Vec<String>,
    /// A flaw of the certificate.
    #[arg(long)]
    flaw: Option<Flaw>,
}

const EXAMPLES: &str = r"Examples:
  podloom-doubles tls --listen 127.0.0.1:8443 --ca ca.pem
  curl --cacert ca.pem https://localhost:8443/

  # TLS in front of a server that speaks plain HTTP
  podloom-doubles tls --listen 127.0.0.1:8445 --ca ca.pem --to 127.0.0.1:8080

  # Clients that check certificates refuse this one
  podloom-doubles tls --listen 127.0.0.1:8444 --ca other.pem --flaw expired";

/// A flaw of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flaw {
    /// It expired in 2020.
    Expired,
    /// It is only for the name wrong.invalid.
    WrongName,
    /// It is signed by another authority than the one in the file.
    UnknownCa,
}

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let sink = SinkServer::new(&arguments.sink)?;
    let acceptor = TlsAcceptor::from(Arc::new(config(arguments)?));
    let listener = listen::bind(arguments.sink.listen).await?;
    let control = listen::bind(arguments.sink.control).await?;
    listen::ready(&listener, Some(&control))?;
    let (served, to) = (Arc::clone(&sink), arguments.to);
    let serve = move |stream| {
        let (acceptor, sink) = (acceptor.clone(), Arc::clone(&served));
        async move {
            let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await else {
                return;
            };
            match to {
                None => sink.serve(stream).await,
                Some(to) => forward(stream, to).await,
            }
        }
    };
    tokio::try_join!(
        listen::accept(listener, serve),
        control::serve(control, sink)
    )?;
    Ok(())
}

/// Passes on all bytes in both directions. Either end may close the connection whenever it likes.
async fn forward(mut client: TlsStream<TcpStream>, to: SocketAddr) {
    if let Ok(mut server) = TcpStream::connect(to).await {
        let _closed = copy_bidirectional(&mut client, &mut server).await;
    }
}

/// Creates the certificates, and writes the authority's to its file.
fn config(arguments: &Arguments) -> Result<ServerConfig> {
    let (certificate, known) = authority("podloom-doubles")?;
    std::fs::write(&arguments.ca, certificate.pem())
        .with_context(|| arguments.ca.display().to_string())?;
    let issuer = match arguments.flaw {
        Some(Flaw::UnknownCa) => authority("podloom-doubles, unknown")?.1,
        _ => known,
    };
    let names = match arguments.flaw {
        Some(Flaw::WrongName) => vec!["wrong.invalid".to_owned()],
        _ => arguments.names.clone(),
    };
    let mut params = CertificateParams::new(names)?;
    if arguments.flaw == Some(Flaw::Expired) {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    Ok(config.with_single_cert(vec![certificate.der().clone()], key)?)
}

/// Creates a certificate authority.
pub(crate) fn authority(name: &str) -> Result<(Certificate, Issuer<'static, KeyPair>)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate, Issuer::new(params, key)))
}
