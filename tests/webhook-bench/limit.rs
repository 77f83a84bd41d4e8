//! The least that a webhook costs in Rust: TLS, HTTP, and always the same answer, served by what the operator serves with.
//!
//! It is this program again, in a process of its own, so that its processor time can be measured.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::operator::Process;

/// The running server; dropping it kills it.
pub(crate) struct Limit {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Limit {
    /// Starts this program with an option that makes it the server of this answer.
    pub(crate) fn start(answer: &[u8]) -> Result<Self> {
        let mut file = NamedTempFile::new()?;
        file.write_all(answer)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--answer-always").arg(file.path());
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = Process(spawned?);
        let printed = process.0.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        // It has read the answer when it prints its address.
        BufReader::new(printed).read_line(&mut line)?;
        let address = line.trim().parse().context("the limit does not serve")?;
        Ok(Self { process, address })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }
}

/// Answers every request with what is in the file, until standard input ends.
pub(crate) async fn serve(answer: &Path) -> Result<()> {
    let answer = Bytes::from(fs::read(answer)?);
    let acceptor = TlsAcceptor::from(Arc::new(certified()?));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(acceptor.clone(), stream, answer.clone()));
    }
}

fn certified() -> Result<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![made.cert.der().clone()],
            key.map_err(|it| anyhow!(it))?,
        )?;
    Ok(config)
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, answer: Bytes) -> Result<()> {
    stream.set_nodelay(true)?;
    let stream = TokioIo::new(acceptor.accept(stream).await?);
    let service = service_fn(|request: Request<Incoming>| {
        let answer = Full::new(answer.clone());
        async {
            request.into_body().collect().await?;
            let response = Response::builder().header("content-type", "application/json");
            Ok::<_, anyhow::Error>(response.body(answer)?)
        }
    });
    http1::Builder::new()
        .serve_connection(stream, service)
        .await?;
    Ok(())
}
