//! The sink with TLS.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use podloom_tests::doubles::{Double, Sink};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use super::{connect, send};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A sink with TLS, and the configuration of a client that trusts the authority in its file.
struct Stage {
    sink: Sink,
    trusting: Arc<ClientConfig>,
    _files: TempDir,
}

fn stage(flags: &[&str]) -> Stage {
    let files = TempDir::new().unwrap();
    let authority = files.path().join("ca.pem");
    let sink = Double::tls(&authority, flags);
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(&authority).unwrap();
    roots.add(certificate).unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Stage {
        sink,
        trusting: Arc::new(config),
        _files: files,
    }
}

impl Stage {
    /// Connects to it under this host name, up to the end of the TLS handshake.
    fn connect(&self, host: &'static str) -> io::Result<Stream> {
        let host = ServerName::try_from(host).unwrap();
        let mut client = ClientConnection::new(Arc::clone(&self.trusting), host).unwrap();
        let mut stream = connect(self.sink.address());
        while client.is_handshaking() {
            client.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(client, stream))
    }
}

#[track_caller]
fn check_refused(flaw: &str, host: &'static str, words: &str) {
    let stage = stage(&["--flaw", flaw]);
    let error = stage.connect(host).map(drop).unwrap_err();
    assert!(error.to_string().contains(words), "{flaw}: {error}");
    assert_eq!(stage.sink.received().count, 0);
}

#[test]
fn a_client_that_trusts_the_authority_is_answered() {
    let stage = stage(&["--body", "safe"]);
    for host in ["localhost", "127.0.0.1"] {
        let answer = send(&mut stage.connect(host).unwrap(), "POST", "/", "secret");
        assert!(answer.ends_with("safe"), "{answer}");
    }
    assert_eq!(stage.sink.received().requests[1].body, "secret");
}

#[test]
fn a_certificate_is_for_the_names_that_it_was_made_for() {
    let stage = stage(&["--name", "sink.example"]);
    stage.connect("sink.example").unwrap();
    assert!(stage.connect("localhost").is_err());
}

#[test]
fn a_flawed_certificate_is_refused() {
    check_refused("expired", "localhost", "expired");
    check_refused("wrong-name", "localhost", "not valid for name");
    check_refused("unknown-ca", "localhost", "UnknownIssuer");
}
