//! The sink with TLS.

use std::io;
use std::path::PathBuf;

use podloom_tests::doubles::{Double, Sink};
use tempfile::TempDir;

use super::{TlsStream, connect_tls, send};

/// A sink with TLS, and the file with its authority.
struct Stage {
    sink: Sink,
    authority: PathBuf,
    _files: TempDir,
}

fn stage(flags: &[&str]) -> Stage {
    let files = TempDir::new().unwrap();
    let authority = files.path().join("ca.pem");
    Stage {
        sink: Double::tls(&authority, flags),
        authority,
        _files: files,
    }
}

impl Stage {
    fn connect(&self, host: &str) -> io::Result<TlsStream> {
        connect_tls(self.sink.address(), host, &self.authority)
    }
}

#[track_caller]
fn check_refused(flaw: &str, host: &str, words: &str) {
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

#[test]
fn what_is_sent_is_forwarded_without_tls() {
    let files = TempDir::new().unwrap();
    let authority = files.path().join("ca.pem");
    let server = Double::sink(&["--body", "plain"]);
    let front = Double::tls_to(&authority, server.address());
    let mut stream = connect_tls(front.address, "localhost", &authority).unwrap();
    let answer = send(&mut stream, "POST", "/", "secret");
    assert!(answer.ends_with("plain"), "{answer}");
    assert_eq!(server.received().requests[0].body, "secret");
}
