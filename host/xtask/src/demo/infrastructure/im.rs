//! The Infrastructure Manager on this machine, and what the owner of the machines does there by hand.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use podloom_im::{BootMode, LOGS, Launch};
use serde_json::{Value, json};

use crate::demo::http;

/// How long the server may take to start.
const START: Duration = Duration::from_mins(1);
/// The account. The server accepts every pair of username and password, and each pair owns infrastructures of its own.
pub(super) const USERNAME: &str = "demo";
pub(super) const PASSWORD: &str = "only-for-the-demo";
/// The name of the Cloud. The operator makes its id at IM of it.
pub(super) const CLOUD: &str = "local";
/// The type of a cloud that creates no machines.
pub(super) const CLOUD_TYPE: &str = "Dummy";

/// A running server; dropping this kills it.
pub(super) struct Im {
    address: SocketAddr,
    folder: PathBuf,
    child: Child,
}

impl Im {
    /// Starts it without infrastructures, and waits until it answers. Its data and its logs are in this folder.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let python = podloom_im::python()?;
        // What an earlier demo left there.
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let address = http::free_address()?;
        let launch = Launch {
            python: &python,
            folder,
            port: address.port(),
            boot_mode: BootMode::Normal,
            users: None,
        };
        let child = launch.command()?.spawn();
        let mut im = Self {
            address,
            folder: folder.to_owned(),
            child: child.with_context(|| python.display().to_string())?,
        };
        im.until_ready()?;
        Ok(im)
    }

    fn until_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < START {
            if let Some(status) = self.child.try_wait()? {
                bail!("the IM server ended ({status}); {}", self.logs());
            }
            // It fails until it listens.
            if http::send(self.address, "GET /version", "", "").is_ok_and(|it| it.status == 200) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        bail!(
            "the IM server does not answer after {} s; {}",
            START.as_secs(),
            self.logs()
        )
    }

    fn logs(&self) -> String {
        let logs = LOGS.map(|name| self.folder.join(name).display().to_string());
        format!("its logs are {}", logs.join(" and "))
    }

    /// Its URL.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The ids of all infrastructures of the account.
    pub(super) fn list(&self) -> Result<Vec<String>> {
        let list = self.read("/infrastructures", "/uri-list")?;
        let list = list.as_array().context("IM lists no infrastructures")?;
        let id = |item: &Value| Some(item.get("uri")?.as_str()?.rsplit('/').next()?.to_owned());
        list.iter()
            .map(|item| id(item).with_context(|| format!("{item} is no infrastructure")))
            .collect()
    }

    /// The states of the machines of an infrastructure, if all of it is configured.
    pub(super) fn configured(&self, id: &str) -> Result<usize> {
        let path = format!("/infrastructures/{id}/state");
        let state = self.read(&path, "/state")?;
        let word = |value: Option<&Value>| value.and_then(Value::as_str) == Some("configured");
        let machines = state.get("vm_states").and_then(Value::as_object);
        let machines = machines.with_context(|| format!("{path}: {state}"))?;
        let all = word(state.get("state")) && machines.values().all(|it| word(Some(it)));
        Ok(if all { machines.len() } else { 0 })
    }

    /// Stops the machines of an infrastructure.
    pub(super) fn stop(&self, id: &str) -> Result<()> {
        self.ask(&format!("PUT /infrastructures/{id}/stop"))
            .map(drop)
    }

    /// Deletes an infrastructure.
    pub(super) fn delete(&self, id: &str) -> Result<()> {
        self.ask(&format!("DELETE /infrastructures/{id}")).map(drop)
    }

    /// A part of what a path answers.
    fn read(&self, path: &str, part: &str) -> Result<Value> {
        let body = self.ask(&format!("GET {path}"))?;
        let answer: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
        let found = answer.pointer(part).cloned();
        found.with_context(|| format!("{path}: there is no {part} in {body}"))
    }

    /// Sends a request as the owner, and returns the body of the answer.
    fn ask(&self, request: &str) -> Result<String> {
        let owner = json!({ "id": "im", "type": "InfrastructureManager", "username": USERNAME, "password": PASSWORD });
        let cloud = json!({ "id": format!("cloud-{CLOUD}"), "type": CLOUD_TYPE });
        let headers = format!(
            "Authorization: {}\r\nAccept: application/json\r\nContent-Type: text/plain\r\n",
            json!([owner, cloud])
        );
        let answer = http::send(self.address, request, &headers, "")?;
        if answer.status != 200 {
            bail!("IM answers {} to {request}: {}", answer.status, answer.body);
        }
        Ok(answer.body)
    }
}

impl Drop for Im {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
    }
}
