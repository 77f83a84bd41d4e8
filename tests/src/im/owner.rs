//! A test's own requests to the IM server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::wait::eventually;

/// How long nothing may be read after a deletion: a state that is read while the server still destroys the infrastructure would
/// write its record back. Nothing that can be read shows that the server is done.
const AFTER_DELETION: Duration = Duration::from_millis(100);

/// With this query, the server answers before it has asked the cloud for anything.
const CREATE_PATH: &str = "/infrastructures?async=true";

/// One owner of infrastructures: a username and a password, and the cloud that its infrastructures are created in.
#[derive(Clone)]
pub struct ImOwner {
    address: SocketAddr,
    owner: Value,
    cloud: Value,
}

/// The state of an infrastructure and of its machines, in IM's words: `pending`, `running`, `configured`, ...
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ImReading {
    /// The state of the infrastructure.
    pub state: String,
    /// The state of each machine, by its number.
    #[serde(rename = "vm_states")]
    pub machines: BTreeMap<String, String>,
}

impl ImOwner {
    /// An owner on the server at this address, with the Dummy cloud.
    #[must_use]
    pub fn new(address: SocketAddr, username: &str, password: &str) -> Self {
        let kind = "InfrastructureManager";
        Self {
            address,
            owner: json!({ "id": "im", "type": kind, "username": username, "password": password }),
            cloud: json!({ "id": "cloud-dummy", "type": "Dummy" }),
        }
    }

    /// The same owner with another cloud, as IM's authorization has it: `{"id": "c", "type": "OpenStack", "host": ...}`.
    #[must_use]
    pub fn with_cloud(self, cloud: Value) -> Self {
        Self { cloud, ..self }
    }

    /// The same owner at another address, such as that of a proxy.
    #[must_use]
    pub fn at(self, address: SocketAddr) -> Self {
        Self { address, ..self }
    }

    /// Sends `METHOD PATH`, and returns whatever is answered.
    ///
    /// # Errors
    ///
    /// Fails if there is no answer within half a minute.
    pub fn try_ask(&self, request: &str, kind: &str, body: &str) -> std::io::Result<Answer> {
        let authorization = json!([self.owner, self.cloud]);
        let headers = format!(
            "Authorization: {authorization}\r\nAccept: application/json\r\nContent-Type: {kind}\r\n"
        );
        http::send_with(self.address, request, &headers, body)
    }

    /// The same, for a request that is answered.
    #[must_use]
    pub fn ask(&self, request: &str, kind: &str, body: &str) -> Answer {
        let answer = self.try_ask(request, kind, body);
        answer.unwrap_or_else(|error| panic!("{request}: {error}"))
    }

    /// Sends `METHOD PATH`, and returns the body of the answer, which must be 200.
    fn done(&self, request: &str, kind: &str, body: &str) -> String {
        let answer = self.ask(request, kind, body);
        assert_eq!(answer.status, 200, "{request}: {}", answer.body);
        answer.body
    }

    fn read<T: DeserializeOwned>(&self, path: &str, member: &str) -> T {
        let text = self.done(&format!("GET {path}"), "text/plain", "");
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        let value = answer.get_mut(member).map(Value::take);
        serde_json::from_value(value.unwrap_or_default())
            .unwrap_or_else(|error| panic!("GET {path}: {error}: {text}"))
    }

    /// Creates an infrastructure without waiting for its cloud, and returns its id. Its machines appear later.
    #[must_use]
    pub fn create(&self, template: &Value) -> String {
        let request = format!("POST {CREATE_PATH}");
        let answer = self.done(&request, "text/yaml", &template.to_string());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        id(answer["uri"].as_str().unwrap())
    }

    /// The ids of all its infrastructures.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        let uris: Vec<Value> = self.read("/infrastructures", "uri-list");
        let ids = uris.iter().map(|item| id(item["uri"].as_str().unwrap()));
        ids.collect()
    }

    /// The state of an infrastructure.
    #[must_use]
    pub fn state(&self, id: &str) -> ImReading {
        self.read(&path(id, "state"), "state")
    }

    /// What the template's outputs evaluate to.
    #[must_use]
    pub fn outputs(&self, id: &str) -> Value {
        self.read(&path(id, "outputs"), "outputs")
    }

    /// The template, in YAML, as IM has merged it.
    #[must_use]
    pub fn tosca(&self, id: &str) -> String {
        self.read(&path(id, "tosca"), "tosca")
    }

    /// What happened while the infrastructure was configured.
    #[must_use]
    pub fn log(&self, id: &str) -> String {
        self.read(&path(id, "contmsg"), "contmsg")
    }

    /// Merges a template into an infrastructure.
    pub fn update(&self, id: &str, template: &Value) {
        let request = format!("POST {}", path(id, ""));
        self.done(&request, "text/yaml", &template.to_string());
    }

    /// Configures the machines again.
    pub fn reconfigure(&self, id: &str) {
        self.done(
            &format!("PUT {}", path(id, "reconfigure")),
            "text/plain",
            "",
        );
    }

    /// Configures the machines of [`never_configures`](super::templates::never_configures) with nothing to do. This time and all
    /// later times it ends `configured`.
    pub fn repair(&self, id: &str) {
        let request = format!("PUT {}", path(id, "reconfigure"));
        self.done(&request, "text/plain", "configure server ()");
    }

    /// Stops the machines.
    pub fn stop_machines(&self, id: &str) {
        self.done(&format!("PUT {}", path(id, "stop")), "text/plain", "");
    }

    /// Starts the machines.
    pub fn start_machines(&self, id: &str) {
        self.done(&format!("PUT {}", path(id, "start")), "text/plain", "");
    }

    /// Deletes one of the machines, by its number.
    pub fn delete_machine(&self, id: &str, machine: &str) {
        let path = path(id, &format!("vms/{machine}"));
        self.done(&format!("DELETE {path}"), "text/plain", "");
    }

    /// Deletes an infrastructure; when this returns, it can be read safely that it is gone.
    pub async fn delete(&self, id: &str) {
        self.done(&format!("DELETE {}", path(id, "")), "text/plain", "");
        tokio::time::sleep(AFTER_DELETION).await;
    }

    /// Waits until an infrastructure has this state, and returns it.
    pub async fn reaches(&self, id: &str, state: &str) -> ImReading {
        eventually(&format!("{id} is {state}"), async || {
            let found = self.state(id);
            let is_there = found.state == state;
            is_there
                .then_some(found.clone())
                .ok_or_else(|| format!("{found:?}"))
        })
        .await
    }

    /// Waits until an infrastructure has this many machines and is configured.
    pub async fn has_machines(&self, id: &str, count: usize) {
        eventually(&format!("{id} has {count} machines"), async || {
            let found = self.state(id);
            let is_there = found.state == "configured" && found.machines.len() == count;
            is_there.then_some(()).ok_or_else(|| format!("{found:?}"))
        })
        .await;
    }
}

fn path(id: &str, what: &str) -> String {
    match what {
        "" => format!("/infrastructures/{id}"),
        what => format!("/infrastructures/{id}/{what}"),
    }
}

/// The last part of an infrastructure's URI.
fn id(uri: &str) -> String {
    uri.rsplit('/').next().unwrap_or_default().to_owned()
}
