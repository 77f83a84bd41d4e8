//! The relay.

use std::io::Read;
use std::net::TcpStream;

use podloom_tests::doubles::{Double, Relay, RelayApi, RelayBehaviour};
use tempfile::TempDir;

use super::{WHILE, connect_tls, send, soon};

const HOST: &str = "relay.localhost";
const APP: &str = "app.relay.localhost";

/// A relay, and the folder with its authority's certificate.
struct Stage {
    relay: Relay,
    files: TempDir,
}

fn stage(api: RelayApi, hostnames: &[&str]) -> Stage {
    let files = TempDir::new().unwrap();
    let relay = Double::relay(&files.path().join("ca.pem"), HOST, &[APP]);
    relay.behave(&RelayBehaviour::new(api, hostnames));
    Stage { relay, files }
}

impl Stage {
    /// The answer to a request to this host name, if the relay accepts it.
    fn ask(&self, host: &str, method: &str, path: &str) -> Option<String> {
        let authority = self.files.path().join("ca.pem");
        let stream = connect_tls(self.relay.address(), host, &authority);
        Some(send(&mut stream.ok()?, method, path, ""))
    }

    #[track_caller]
    fn check(&self, path: &str, words: &[&str]) {
        let answer = self.ask(HOST, "GET", path).unwrap();
        for word in words {
            assert!(answer.contains(word), "{path}: {word} in {answer}");
        }
    }
}

const JSON: &str = "content-type: application/json\r\n";
const WEBSITE: [&str; 3] = ["HTTP/1.0 200 OK", "content-type: text/html", "<title>"];

#[test]
fn a_relay_lists_its_leases() {
    let stage = stage(RelayApi::State, &[APP]);
    let lease = format!(r#"{{"hostname":"{APP}","ready":1}}"#);
    stage.check("/api/state", &[JSON, r#""ok":true"#, &lease]);
    stage.check("/sdk/domain", &[JSON, r#""ok":true"#]);
    stage.check("/tunnel/status?hostname=x", &WEBSITE);
    stage.relay.behave(&RelayBehaviour::default());
    stage.check("/api/state", &[r#""leases":[]"#]);
}

#[test]
fn an_old_relay_tells_of_one_hostname() {
    let stage = stage(RelayApi::Status, &[APP]);
    let path = format!("/tunnel/status?hostname={APP}");
    stage.check(&path, &[JSON, r#""registered":true,"service_alive":true"#]);
    let mut behaviour = RelayBehaviour::new(RelayApi::Status, &[APP]);
    behaviour.leases.insert(APP.to_owned(), 0);
    stage.relay.behave(&behaviour);
    stage.check(&path, &[r#""registered":true,"service_alive":false"#]);
    let other = "/tunnel/status?hostname=other";
    stage.check(other, &[r#""registered":false,"service_alive":false"#]);
    stage.check("/api/state", &WEBSITE);
}

#[test]
fn connections_to_a_hostname_reach_its_tunnel() {
    let stage = stage(RelayApi::Domain, &[APP]);
    let answer = stage.ask(APP, "HEAD", "/").unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK"), "{answer}");
    stage.check("/sdk/domain", &[JSON, r#""ok":true"#]);
    stage.check("/api/state", &WEBSITE);
    stage
        .relay
        .behave(&RelayBehaviour::new(RelayApi::Domain, &[]));
    assert_eq!(stage.ask(APP, "HEAD", "/"), None, "nobody serves it");
}

#[test]
fn a_relay_can_be_of_no_use() {
    let stage = stage(RelayApi::Website, &[APP]);
    for path in ["/api/state", "/tunnel/status?hostname=x", "/sdk/domain"] {
        stage.check(path, &WEBSITE);
    }
    for (api, words) in [
        (RelayApi::Error, "HTTP/1.0 503 "),
        (RelayApi::Garbage, r#""ok": "maybe""#),
        (RelayApi::Redirect, "location: https://elsewhere.localhost/"),
    ] {
        stage.relay.behave(&RelayBehaviour::new(api, &[APP]));
        stage.check("/api/state", &[words]);
    }
}

#[test]
fn a_relay_can_hang() {
    let stage = stage(RelayApi::Hang, &[]);
    let authority = stage.files.path().join("ca.pem");
    let mut stream = connect_tls(stage.relay.address(), HOST, &authority).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /api/state HTTP/1.0\r\n\r\n").unwrap();
    soon("the request arrives", || stage.relay.received().count == 1);
    stream.sock.set_read_timeout(Some(WHILE)).unwrap();
    assert!(stream.read(&mut [0]).is_err(), "it answers nothing");
}

#[test]
fn a_relay_records_requests_and_forgets_them() {
    let stage = stage(RelayApi::State, &[APP]);
    stage.check("/api/state", &[JSON]);
    stage.ask(APP, "HEAD", "/").unwrap();
    let received = stage.relay.received();
    assert_eq!(received.count, 2);
    let lines = received.requests.iter();
    let lines: Vec<_> = lines
        .map(|request| format!("{} {}", request.method, request.path))
        .collect();
    assert_eq!(lines, ["GET /api/state", "HEAD /"]);
    assert_eq!(received.requests[0].headers["host"], "double");
    stage.relay.forget();
    assert_eq!(stage.relay.received().count, 0);
}

#[test]
fn a_relay_dies() {
    let stage = stage(RelayApi::State, &[]);
    let address = stage.relay.address();
    drop(stage);
    assert!(TcpStream::connect(address).is_err());
}
