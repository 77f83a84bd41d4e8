//! Lists of a cluster, page by page, with the rights of the user of a kubeconfig.

mod objects;

use std::mem;

use anyhow::Context;
use axum::http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::{GetParams, ListParams};
use podloom_engine::plain::plain;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::objects::Objects;
use crate::client;
use crate::error::CommandError;

/// How many objects are asked for at once. [`Pages`] holds them in memory together, and anybody may make large ones.
const PAGE: u32 = 50;

/// Connects to the cluster of the kubeconfig's context, or to the one in which this pod runs. Nothing is asked yet.
pub(crate) async fn connect() -> Result<Client, CommandError> {
    connect_to(None).await
}

/// The same, to the cluster of a context that may be named.
pub(crate) async fn connect_to(context: Option<&str>) -> Result<Client, CommandError> {
    let config = client::cluster(context).await?;
    Ok(client::of_command(&config).context("cannot connect to the cluster")?)
}

/// A list in a cluster.
pub(crate) struct Place {
    api_version: String,
    plural: String,
    /// None for all, and for kinds without one.
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

/// Reads a list page by page.
pub(crate) struct Pages<'a> {
    client: &'a Client,
    place: &'a Place,
    is_metadata: bool,
    /// Where the next page starts; none before the first one.
    token: Option<String>,
    is_done: bool,
}

/// Why something cannot be read.
pub(crate) enum Trouble {
    /// The cluster does not have this kind, or this object.
    NotServed,
    /// The user may not. Holds what the API server says.
    Forbidden(String),
    Other(kube::Error),
}

/// An answer; without its objects if they were read apart.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Option<Vec<Value>>,
}

impl Place {
    pub(crate) fn new(api_version: &str, plural: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            plural: plural.to_owned(),
            namespace: None,
            labels: None,
            fields: None,
        }
    }

    pub(crate) fn within(self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..self
        }
    }

    /// Reads one object of the list, and of it only what this type has: anybody may make large ones. None if it is too long.
    pub(crate) async fn get_part<T: DeserializeOwned>(
        &self,
        client: &Client,
        name: &str,
    ) -> Result<Option<T>, Trouble> {
        let request = kube::core::Request::new(self.url()).get(name, &GetParams::default());
        let request = request.map_err(|error| Trouble::Other(kube::Error::BuildRequest(error)))?;
        let text = client.request_text(request).await.map_err(Trouble::of)?;
        if text.len() > LONGEST {
            return Ok(None);
        }
        let part = serde_json::from_str(&text).map(Some);
        part.map_err(|error| Trouble::Other(kube::Error::SerdeError(error)))
    }

    /// Reads one object of the list.
    pub(crate) async fn get(&self, client: &Client, name: &str) -> Result<Value, Trouble> {
        let request = kube::core::Request::new(self.url()).get(name, &GetParams::default());
        let request = request.map_err(|error| Trouble::Other(kube::Error::BuildRequest(error)))?;
        client.request(request).await.map_err(Trouble::of)
    }

    fn url(&self) -> String {
        let root = match self.api_version.contains('/') {
            true => "apis",
            false => "api",
        };
        let namespace = self.namespace.as_ref();
        let namespace = namespace.map(|name| format!("namespaces/{name}/"));
        format!(
            "/{root}/{}/{}{}",
            self.api_version,
            namespace.unwrap_or_default(),
            self.plural
        )
    }
}

impl<'a> Pages<'a> {
    pub(crate) fn of(client: &'a Client, place: &'a Place) -> Self {
        Self {
            client,
            place,
            is_metadata: false,
            token: None,
            is_done: false,
        }
    }

    /// Reads only the objects' metadata.
    pub(crate) fn of_metadata(client: &'a Client, place: &'a Place) -> Self {
        Self {
            is_metadata: true,
            ..Self::of(client, place)
        }
    }

    /// The next page; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Value>>, Trouble> {
        if self.is_done {
            return Ok(None);
        }
        let request = self.request()?;
        let page: Page = self.client.request(request).await.map_err(Trouble::of)?;
        self.turn(page.metadata);
        Ok(Some(page.items.unwrap_or_default()))
    }

    /// Asks for the next page.
    fn request(&mut self) -> Result<Request<Vec<u8>>, Trouble> {
        let parameters = ListParams {
            label_selector: self.place.labels.clone(),
            field_selector: self.place.fields.clone(),
            limit: Some(PAGE),
            continue_token: self.token.take(),
            ..ListParams::default()
        };
        let request = kube::core::Request::new(self.place.url());
        let request = match self.is_metadata {
            true => request.list_metadata(&parameters),
            false => request.list(&parameters),
        };
        request.map_err(|error| Trouble::Other(kube::Error::BuildRequest(error)))
    }

    /// A page was read, which says where the next one starts.
    fn turn(&mut self, page: ListMeta) {
        self.token = page.continue_.filter(|token| !token.is_empty());
        self.is_done = self.token.is_none();
    }
}

impl Trouble {
    /// A sentence for a log.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::NotServed => "the API server does not serve it".to_owned(),
            Self::Forbidden(message) => message,
            Self::Other(error) => plain(&error),
        }
    }

    fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                Self::Forbidden(status.message.clone())
            }
            // Of a group that it does not have, an API server says so in plain text, without a reason.
            kube::Error::Api(status) if status.code == 404 => Self::NotServed,
            other => Self::Other(other),
        }
    }

    pub(crate) fn into_error(self, what: &str) -> CommandError {
        match self {
            Self::NotServed => CommandError::Other(anyhow::anyhow!("the cluster has no {what}")),
            Self::Forbidden(message) => {
                CommandError::Other(anyhow::anyhow!("you may not list {what}: {message}"))
            }
            Self::Other(error) => anyhow::Error::new(error)
                .context(format!("cannot list {what}"))
                .into(),
        }
    }
}

/// How long an object may be. Kubernetes allows longer ones, of which the parsed form can take a hundred times as much memory; those
/// are not read.
const LONGEST: usize = 512 * 1024;
/// How long the answer may be without its objects.
const FRAME: usize = 64 * 1024;

/// Splits an answer that is a list into its objects while it arrives, so that it is never in memory as a whole.
#[derive(Default)]
struct Splitter {
    /// The answer with an empty list.
    frame: Vec<u8>,
    object: Vec<u8>,
    is_too_long: bool,
    /// How many objects and lists around this byte are open.
    depth: usize,
    is_in_items: bool,
    is_in_text: bool,
    is_escaped: bool,
}

/// Reads an object of a list; none if it is too long or nested too deep. Who may write objects can make such ones, so that is no error.
pub(crate) fn read(object: &[u8]) -> Option<Value> {
    serde_json::from_slice(object).ok()
}

impl Splitter {
    /// Takes bytes up to the end of the next object; returns how many these are, and the object if it is whole. One that is too long
    /// is empty.
    fn take(&mut self, bytes: &[u8]) -> (usize, Option<Vec<u8>>) {
        for (index, byte) in bytes.iter().enumerate() {
            let was_in_object = self.is_in_object();
            self.step(*byte);
            let is_in_object = self.is_in_object();
            if was_in_object || is_in_object {
                self.put_object(*byte);
            } else {
                self.put_frame(*byte);
            }
            if was_in_object && !is_in_object {
                self.is_too_long = false;
                return (index.saturating_add(1), Some(mem::take(&mut self.object)));
            }
        }
        (bytes.len(), None)
    }

    fn is_in_object(&self) -> bool {
        self.is_in_items && self.depth > 2
    }

    fn step(&mut self, byte: u8) {
        if self.is_in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.is_in_text = true,
            b'{' | b'[' => {
                if self.depth == 1 {
                    self.is_in_items = self.frame.ends_with(b"\"items\":");
                }
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn put_object(&mut self, byte: u8) {
        if self.object.len() < LONGEST && !self.is_too_long {
            self.object.push(byte);
        } else {
            self.is_too_long = true;
            self.object = Vec::new();
        }
    }

    fn put_frame(&mut self, byte: u8) {
        let is_between = self.is_in_items && self.depth == 2 && byte == b',';
        let is_space = !self.is_in_text && byte.is_ascii_whitespace();
        if !is_between && !is_space && self.frame.len() < FRAME {
            self.frame.push(byte);
        }
    }
}

#[cfg(test)]
mod tests;
