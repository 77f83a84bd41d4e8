//! A relay on this machine: `podloom-doubles relay`.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::demo::http;

/// A running relay; dropping this kills it. Displayed as in a URL.
pub(super) struct Relay {
    authority: PathBuf,
    port: u16,
    control: SocketAddr,
    child: Child,
}

impl Relay {
    /// Starts one that serves no hostname yet. It writes the certificate authority to trust into a file.
    pub(super) fn start(doubles: &Path, authority: &Path) -> Result<Self> {
        let mut child = Command::new(doubles)
            .args(["relay", "--owned", "--host", "localhost", "--ca"])
            .arg(authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| doubles.display().to_string())?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).context("the relay did not start")?;
        let address = |name: &str| -> Result<SocketAddr> {
            let text = ready.get(name).and_then(Value::as_str);
            Ok(text.context("the relay has no address")?.parse()?)
        };
        Ok(Self {
            authority: authority.to_owned(),
            port: address("address")?.port(),
            control: address("control")?,
            child,
        })
    }

    /// Lets it serve these hostnames, each by one tunnel.
    pub(super) fn serve(&self, hostnames: &[&str]) -> Result<()> {
        let leases: Map<_, _> = hostnames
            .iter()
            .map(|name| ((*name).to_owned(), json!(1)))
            .collect();
        let body = json!({ "leases": leases }).to_string();
        let answer = http::send(self.control, "PUT /behaviour", "", &body)?;
        if answer.status != 200 {
            bail!("the relay refuses: {}", answer.body);
        }
        Ok(())
    }
}

impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "localhost:{}", self.port)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
    }
}

/// Writes the authorities of relays into one file, and returns its name.
pub(super) fn trust(relays: &[&Relay], file: &Path) -> Result<String> {
    let mut all = String::new();
    for relay in relays {
        all += &fs::read_to_string(&relay.authority)?;
    }
    fs::write(file, all)?;
    Ok(file.to_str().context("the path is not UTF-8")?.to_owned())
}
