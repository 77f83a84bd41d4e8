//! Doubles of what surrounds the operator. Each is a `podloom-doubles` process that ends when its handle is dropped.

mod balancer;
mod relay;
mod sink;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::http;
pub use balancer::{Backend, BackendState, Balancer};
pub use relay::{Relay, RelayApi, RelayBehaviour};
pub use sink::{ReceivedRequest, ReceivedRequests, Reply, Sink};

/// What a double prints when it is ready.
#[derive(Debug, Deserialize, Serialize)]
pub struct Ready {
    /// The address that it serves.
    pub address: SocketAddr,
    /// The address of its control endpoint, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<SocketAddr>,
}

/// Where a server hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HangPoint {
    /// It neither accepts nor refuses connections.
    Connect,
    /// It accepts connections but reads nothing, so a TLS handshake does not finish either.
    Accept,
    /// It reads the request and does not answer.
    Answer,
    /// It sends half of the answer's head.
    Head,
    /// It sends half of the answer's body.
    Body,
}

/// A running double. Dropping it kills it; if this process is killed, it ends by itself.
pub struct Double {
    /// The address that it serves.
    pub address: SocketAddr,
    control: Option<SocketAddr>,
    child: Child,
}

impl Double {
    /// Starts a double with these command line arguments, and waits until it is ready.
    pub fn start<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let binary = binary();
        let mut child = Command::new(&binary)
            .args(arguments)
            .arg("--owned")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        // A double that cannot start prints the reason on standard error.
        let ready: Ready = serde_json::from_str(&line).unwrap();
        Self {
            address: ready.address,
            control: ready.control,
            child,
        }
    }

    /// An HTTP server that records its requests; for the flags see `podloom-doubles sink`.
    #[must_use]
    pub fn sink(flags: &[&str]) -> Sink {
        Sink(Self::start([&["sink"], flags].concat()))
    }

    /// The same with TLS; the certificate of its certificate authority is written to the file.
    #[must_use]
    pub fn tls(authority: &Path, flags: &[&str]) -> Sink {
        let authority = authority.to_str().unwrap();
        Sink(Self::start([&["tls", "--ca", authority], flags].concat()))
    }

    /// TLS in front of another server; the certificate of its certificate authority is written to the file.
    #[must_use]
    pub fn tls_to(authority: &Path, server: SocketAddr) -> Self {
        let (authority, server) = (authority.to_str().unwrap(), server.to_string());
        Self::start(["tls", "--ca", authority, "--to", &server])
    }

    /// A relay with this host, which may serve these hostnames; the certificate of its certificate authority is written to the file.
    #[must_use]
    pub fn relay(authority: &Path, host: &str, hostnames: &[&str]) -> Relay {
        let authority = authority.to_str().unwrap();
        let mut arguments = vec!["relay", "--ca", authority, "--host", host];
        arguments.extend(hostnames.iter().flat_map(|name| ["--tunnel", name]));
        Relay {
            double: Self::start(arguments),
            host: host.to_owned(),
        }
    }

    /// A TCP load balancer in front of these servers.
    #[must_use]
    pub fn balancer(backends: &[SocketAddr]) -> Balancer {
        let backends = backends
            .iter()
            .flat_map(|backend| ["--to".to_owned(), backend.to_string()]);
        Balancer(Self::start(
            ["balance".to_owned()].into_iter().chain(backends),
        ))
    }

    /// A proxy in front of etcd that can hold back what watches tell.
    #[must_use]
    pub fn lag(etcd: SocketAddr) -> Self {
        Self::start(["lag", "--to", &etcd.to_string()])
    }

    /// A server that hangs.
    #[must_use]
    pub fn hanging(at: HangPoint) -> Self {
        let at = at.to_possible_value().unwrap();
        Self::start(["hang", "--at", at.get_name()])
    }

    /// Sends a request to its control endpoint, and returns the answer.
    pub(crate) fn steer(&self, method: &str, path: &str, body: &str) -> String {
        let control = self.control.expect("it has a control endpoint");
        let answer = http::send(control, method, path, body).unwrap();
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        answer.body
    }

    /// Reads JSON from its control endpoint.
    pub(crate) fn ask<T: DeserializeOwned>(&self, path: &str) -> T {
        serde_json::from_str(&self.steer("GET", path, "")).unwrap()
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
    }
}

/// The binary is in the running program's directory, or for tests, in the directory above. Cargo builds it with this package's tests.
fn binary() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut candidates = here
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join("podloom-doubles"));
    candidates
        .find(|file| file.is_file())
        .expect("podloom-doubles is built: cargo build --workspace --bin podloom-doubles")
}
