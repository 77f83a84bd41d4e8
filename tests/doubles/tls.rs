//! `podloom-doubles tls`: the sink behind TLS, with a certificate that is right or wrong.

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
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::sink::Sink;
use crate::{control, listen, sink};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The sink behind TLS. Its certificate is made at the start, and lives as long as it does.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sink: sink::Options,
    /// Where to write the certificate of the authority that clients are to trust.
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// A name or address that the certificate is for; may be repeated.
    #[arg(long = "name", value_name = "HOST", default_values = ["localhost", "127.0.0.1", "::1"])]
    names: Vec<String>,
    /// What is wrong with the certificate.
    #[arg(long)]
    flaw: Option<Flaw>,
}

const EXAMPLES: &str = r"Examples:
  podloom-doubles tls --listen 127.0.0.1:8443 --ca ca.pem
  curl --cacert ca.pem https://localhost:8443/

  # Refused by whoever checks
  podloom-doubles tls --listen 127.0.0.1:8444 --ca other.pem --flaw expired";

/// What is wrong with a certificate.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flaw {
    /// It ended in 2020.
    Expired,
    /// It is for wrong.invalid alone.
    WrongName,
    /// It is signed by an authority that is not the one in the file.
    UnknownCa,
}

/// Runs until it is killed.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let sink = Sink::new(&arguments.sink)?;
    let acceptor = TlsAcceptor::from(Arc::new(config(arguments)?));
    let listener = listen::bind(arguments.sink.listen).await?;
    let control = listen::bind(arguments.sink.control).await?;
    listen::ready(&listener, Some(&control))?;
    let served = Arc::clone(&sink);
    let serve = move |stream| {
        let (acceptor, sink) = (acceptor.clone(), Arc::clone(&served));
        async move {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                sink.serve(stream).await;
            }
        }
    };
    tokio::try_join!(
        listen::accept(listener, serve),
        control::serve(control, sink)
    )?;
    Ok(())
}

/// Makes the certificates, and writes that of the authority.
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

fn authority(name: &str) -> Result<(Certificate, Issuer<'static, KeyPair>)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate, Issuer::new(params, key)))
}
