//! Doubles of what is outside, each a process of `podloom-doubles` that ends with its handle.

mod balancer;
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
pub use balancer::{Backend, Balancer, Turn};
pub use sink::{Heard, Recorded, Reply, Sink};

/// What a double prints once it is ready.
#[derive(Debug, Deserialize, Serialize)]
pub struct Ready {
    /// Where it plays its part.
    pub address: SocketAddr,
    /// Where it is steered, if it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<SocketAddr>,
}

/// Where a server hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// It accepts no connection, and refuses none.
    Connect,
    /// It accepts and reads nothing, so no handshake ends either.
    Accept,
    /// It reads the request and does not answer.
    Answer,
    /// It sends half of the answer's head.
    Head,
    /// It sends half of the answer's body.
    Body,
}

/// A running double; killed when it is dropped, and it ends by itself when we are killed.
pub struct Double {
    /// Where it plays its part.
    pub address: SocketAddr,
    control: Option<SocketAddr>,
    child: Child,
}

impl Double {
    /// Starts one with the arguments of its command line, and waits until it is ready.
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
        // One that cannot start says why on standard error.
        let ready: Ready = serde_json::from_str(&line).unwrap();
        Self {
            address: ready.address,
            control: ready.control,
            child,
        }
    }

    /// An HTTP server that remembers what it was asked; flags as those of `podloom-doubles sink`.
    #[must_use]
    pub fn sink(flags: &[&str]) -> Sink {
        Sink(Self::start([&["sink"], flags].concat()))
    }

    /// The same behind TLS, signed by an authority whose certificate is written to the file.
    #[must_use]
    pub fn tls(authority: &Path, flags: &[&str]) -> Sink {
        let authority = authority.to_str().unwrap();
        Sink(Self::start([&["tls", "--ca", authority], flags].concat()))
    }

    /// A TCP balancer before these servers.
    #[must_use]
    pub fn balancer(backends: &[SocketAddr]) -> Balancer {
        let backends = backends
            .iter()
            .flat_map(|backend| ["--to".to_owned(), backend.to_string()]);
        Balancer(Self::start(
            ["balance".to_owned()].into_iter().chain(backends),
        ))
    }

    /// A server that hangs.
    #[must_use]
    pub fn hanging(at: Phase) -> Self {
        let at = at.to_possible_value().unwrap();
        Self::start(["hang", "--at", at.get_name()])
    }

    /// Does something at its control endpoint, and returns what that says.
    pub(crate) fn steer(&self, method: &str, path: &str, body: &str) -> String {
        let control = self.control.expect("it has a control endpoint");
        let answer = http::send(control, method, path, body).unwrap();
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        answer.body
    }

    /// Reads something there.
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

/// Beside the running program, or, for tests, above it: cargo builds both for the tests of this package.
fn binary() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut places = here
        .ancestors()
        .skip(1)
        .take(2)
        .map(|place| place.join("podloom-doubles"));
    places
        .find(|place| place.is_file())
        .expect("podloom-doubles is built: cargo build --workspace --bin podloom-doubles")
}
