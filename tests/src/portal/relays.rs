//! Relays on this machine, for operators that ask relays.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Portal;
use crate::doubles::{Double, Relay, RelayApi, RelayBehaviour};
use crate::operator::Operator;

/// The flags that let an operator ask relays on this machine, each second.
pub const ASK_HERE: [&str; 4] = [
    "--portal-relay-allow-cidr",
    "127.0.0.1/32",
    "--portal-relay-poll-interval",
    "1s",
];

/// Relays on this machine, and the file with their certificate authorities.
pub struct Relays {
    /// The relays; one that is dropped is dead.
    pub relays: Vec<Relay>,
    files: TempDir,
}

impl Relays {
    /// Starts so many relays, which may serve these applications. They serve none yet.
    #[must_use]
    pub fn start(count: usize, apps: &[&str]) -> Self {
        let files = TempDir::new().unwrap();
        let relays = (0..count).map(|number| {
            let hostnames = hostnames(apps, number);
            let hostnames: Vec<&str> = hostnames.iter().map(String::as_str).collect();
            let file = files.path().join(format!("{number}.pem"));
            Double::relay(&file, &relay_host(number), &hostnames)
        });
        let relays: Vec<Relay> = relays.collect();
        let authorities = (0..count).map(|number| {
            let file = files.path().join(format!("{number}.pem"));
            fs::read_to_string(file).unwrap()
        });
        let authorities: String = authorities.collect();
        fs::write(files.path().join("all.pem"), authorities).unwrap();
        Self { relays, files }
    }

    /// The file with the certificate authorities of all of them.
    #[must_use]
    pub fn authorities(&self) -> PathBuf {
        self.files.path().join("all.pem")
    }

    /// Starts an operator that asks relays, and trusts these.
    pub async fn operator(&self, portal: &Portal<'_>, more: &[&str]) -> Operator {
        let authorities = self.authorities();
        let arguments = [
            "--portal-relay-observation",
            "poll",
            "--portal-relay-grace",
            "5s",
            "--portal-relay-ca-file",
            authorities.to_str().unwrap(),
        ];
        portal.operator(&[&arguments, more].concat()).await
    }

    /// Makes a relay with these paths serve these applications.
    pub fn behave(&self, number: usize, api: RelayApi, apps: &[&str]) {
        let hostnames = hostnames(apps, number);
        let hostnames: Vec<&str> = hostnames.iter().map(String::as_str).collect();
        let relay = self.relays.get(number).unwrap();
        relay.behave(&RelayBehaviour::new(api, &hostnames));
    }

    /// The spec of a PortalExpose at all these relays.
    #[must_use]
    pub fn spec(&self, portal: &Portal<'_>, app: &str) -> Value {
        let targets = self.relays.iter().enumerate();
        let targets = targets.map(|(number, relay)| {
            let url = format!("wss://{}/relay", relay.authority());
            json!({ "name": format!("relay-{number}"), "url": url })
        });
        let mut spec = portal.spec(app);
        spec["relay"]["targets"] = targets.collect();
        spec
    }
}

/// The hostname of an application at the relay with this number.
#[must_use]
pub fn relay_hostname(app: &str, number: usize) -> String {
    format!("{app}.{}", relay_host(number))
}

/// Names under localhost are this machine.
fn relay_host(number: usize) -> String {
    format!("relay-{number}.localhost")
}

fn hostnames(apps: &[&str], number: usize) -> Vec<String> {
    let hostnames = apps.iter().map(|app| relay_hostname(app, number));
    hostnames.collect()
}
