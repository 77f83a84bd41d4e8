//! Reads and deletes objects of any kind, within bounds of memory. They are JSON as the API server sends it, since conditions see all of it.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::AsyncReadExt;
use kube::api::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy as Policy,
};
use kube::core::response::reason;
use kube::core::{DynamicObject, Request, Selector, Status};
use kube::{Client, Resource};
use podloom_api::PropagationPolicy;
use podloom_api::names::cleaner::FIELD_MANAGER;
use podloom_engine::shown::at_most;
use podloom_turns::lock;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::discovery::{FailureKind, RequestError, ServedKind};

/// How long one request may take, retries of the client included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How many objects are on a page of a list. If they are large, fewer.
const PAGE: u32 = 500;
/// By which factor a page becomes smaller whose objects are too large together.
const SMALLER: u32 = 8;
/// How much of an answer is read whatever others read, in bytes.
const SHORT_ANSWER: u64 = 128 * 1024;
/// How long an answer may be, in bytes.
const ANSWER_MAX: u64 = 12 * 1024 * 1024;
/// How many objects a list may have.
const OBJECTS_MAX: usize = 10_000;
/// How much of what the API server says is passed on, in bytes.
const MESSAGE_MAX: usize = 512;

/// The objects of the cluster. Cheap to clone.
#[derive(Clone)]
pub(super) struct Objects {
    client: Client,
    allowance: Allowance,
}

/// One object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// Its kind.
    pub(super) kind: &'a ServedKind,
    /// Its namespace; none if its kind is cluster-scoped.
    pub(super) namespace: Option<&'a str>,
    /// Its name.
    pub(super) name: &'a str,
}

/// A request to send.
type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

impl Objects {
    /// Returns those that a client sees.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            allowance: Allowance::new(),
        }
    }

    /// Returns an empty share of the memory for the objects of a target, for a Cleaner in this namespace.
    pub(super) fn share(&self, namespace: &str) -> Share {
        self.allowance.share(namespace)
    }

    /// Reads an object that is not kept for long; none if there is none of this name.
    pub(super) async fn get(&self, place: Place<'_>) -> Result<Option<Value>, RequestError> {
        let namespace = place.namespace.unwrap_or_default();
        self.get_kept(place, &mut self.share(namespace)).await
    }

    /// Does the same for an object that is kept as long as its share.
    pub(super) async fn get_kept(
        &self,
        place: Place<'_>,
        share: &mut Share,
    ) -> Result<Option<Value>, RequestError> {
        let request = Request::new(place.url()).get(&segment(place.name), &GetParams::default());
        let object = self.send(request, share).await;
        if_there(object.map(|object| place.kind.completed(object)))
    }

    /// Reads the metadata of an object; none if there is none of this name.
    pub(super) async fn get_metadata(
        &self,
        place: Place<'_>,
    ) -> Result<Option<Value>, RequestError> {
        let name = segment(place.name);
        let request = Request::new(place.url()).get_metadata(&name, &GetParams::default());
        let share = &mut self.share(place.namespace.unwrap_or_default());
        if_there(self.send(request, share).await)
    }

    /// Lists the objects that a selector matches, as CEL sees a list: with `apiVersion`, `kind`, `metadata` and `items`, and each item
    /// with `apiVersion` and `kind`. They are kept as long as their share.
    pub(super) async fn list(
        &self,
        kind: &ServedKind,
        namespace: Option<&str>,
        selector: &Selector,
        share: &mut Share,
    ) -> Result<Value, RequestError> {
        let parameters = ListParams::default().labels_from(selector);
        let request = |parameters: &ListParams| {
            Request::new(DynamicObject::url_path(&kind.resource, namespace)).list(parameters)
        };
        let (metadata, items) = self.pages(kind, (parameters, share), request).await?;
        let items = items.into_iter().map(|item| kind.completed(item));
        Ok(kind.list(metadata, items.collect()))
    }

    /// Lists the metadata of the objects with these labels and fields, as the API server reads both.
    pub(super) async fn list_metadata(
        &self,
        kind: &ServedKind,
        namespace: &str,
        (labels, fields): (&str, &str),
    ) -> Result<Vec<Value>, RequestError> {
        let parameters = ListParams::default().labels(labels).fields(fields);
        let request = |parameters: &ListParams| {
            let url = DynamicObject::url_path(&kind.resource, Some(namespace));
            Request::new(url).list_metadata(parameters)
        };
        let share = &mut self.share(namespace);
        let (_, items) = self.pages(kind, (parameters, share), request).await?;
        Ok(items)
    }

    /// All items of a list, and the metadata of its last page.
    async fn pages(
        &self,
        kind: &ServedKind,
        (mut parameters, share): (ListParams, &mut Share),
        request: impl Fn(&ListParams) -> Built,
    ) -> Result<(Value, Vec<Value>), RequestError> {
        let mut items = Vec::new();
        let mut page = PAGE;
        loop {
            parameters.limit = Some(page);
            let mut list: Value = match self.send(request(&parameters), share).await {
                Ok(list) => list,
                Err(error) if error.kind == FailureKind::TooLong && page > 1 => {
                    page = (page / SMALLER).max(1);
                    continue;
                }
                Err(error) => return Err(no_object(kind, error)),
            };
            match list.get_mut("items").map(Value::take) {
                Some(Value::Array(more)) => items.extend(more),
                // So Go writes a list without objects.
                Some(Value::Null) => {}
                // It would look like one, and conditions would be true of all its objects.
                _ => return Err(kind.no_list()),
            }
            if items.len() > OBJECTS_MAX {
                return Err(RequestError {
                    kind: FailureKind::TooLong,
                    message: format!("there are more than {OBJECTS_MAX} objects, select fewer"),
                });
            }
            let next = list["metadata"]["continue"].as_str();
            match next.filter(|next| !next.is_empty()) {
                Some(next) => parameters.continue_token = Some(next.to_owned()),
                None => return Ok((list["metadata"].take(), items)),
            }
        }
    }

    /// Creates an object.
    ///
    /// A conflict means that there is one of its name.
    pub(super) async fn create(
        &self,
        kind: &ServedKind,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, RequestError> {
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let url = DynamicObject::url_path(&kind.resource, Some(namespace));
        let object = object.to_string().into_bytes();
        let request = Request::new(url).create(&parameters, object);
        let created = self.send(request, &mut self.share(namespace)).await;
        created
            .map(|created| kind.completed(created))
            .map_err(|error| no_object(kind, error))
    }

    /// Changes an object by a merge-patch (RFC 7396); none if there is no such object.
    pub(super) async fn merge(
        &self,
        place: Place<'_>,
        patch: &Value,
    ) -> Result<Option<Value>, RequestError> {
        let parameters = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = segment(place.name);
        let patch = Patch::Merge(patch);
        let request = Request::new(place.url()).patch(&name, &parameters, &patch);
        let share = &mut self.share(place.namespace.unwrap_or_default());
        let object = self.send(request, share).await;
        if_there(object.map(|object| place.kind.completed(object)))
    }

    /// Deletes the object of this UID, never another of the same name. The propagation policy is always given: without it, what the
    /// object owns would stay for some kinds.
    ///
    /// Returns the answer of the API server, which has accepted it; finalizers may keep the object for a while. It is the text of the
    /// object, or says that it is gone. None if there is no such object.
    ///
    /// A conflict means that the object of this name has another UID.
    pub(super) async fn delete(
        &self,
        place: Place<'_>,
        uid: &str,
        propagation: PropagationPolicy,
    ) -> Result<Option<Vec<u8>>, RequestError> {
        let parameters = DeleteParams {
            propagation_policy: Some(match propagation {
                PropagationPolicy::Background => Policy::Background,
                PropagationPolicy::Foreground => Policy::Foreground,
            }),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = Request::new(place.url()).delete(&segment(place.name), &parameters);
        if_there(self.text(request).await.map(|(answer, _)| answer))
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Built,
        share: &mut Share,
    ) -> Result<T, RequestError> {
        let (text, _turn) = self.text(request).await?;
        share.grow(&text).map_err(no_room)?;
        // The text of the error would quote the answer.
        serde_json::from_slice(&text).map_err(|_| {
            let text = "no answer from the API server: it has not the expected form";
            failed(FailureKind::Transient, text.to_owned())
        })
    }

    /// Returns the text of an answer. A long one has its turn, as long as it is kept.
    async fn text(&self, request: Built) -> Result<Text<'_>, RequestError> {
        let request = request.map_err(|error| {
            let message = format!("the request cannot be built: {error}");
            failed(FailureKind::Refused, message)
        })?;
        match timeout(REQUEST_TIMEOUT, self.read(request)).await {
            Ok(Ok((text, _))) if length(&text) > ANSWER_MAX => Err(no_room(FailureKind::TooLong)),
            Ok(Ok(text)) => Ok(text),
            Ok(Err(kube::Error::Api(status))) => Err(read_status(*status)),
            Ok(Err(error)) => {
                let message = format!("no answer from the API server: {error}");
                Err(failed(FailureKind::Transient, message))
            }
            Err(_) => {
                let message = format!(
                    "no answer from the API server after {} s",
                    REQUEST_TIMEOUT.as_secs()
                );
                Err(failed(FailureKind::Transient, message))
            }
        }
    }

    /// Reads an answer, up to one byte more than is allowed.
    ///
    /// Not by `Client::request`: it logs an answer that it cannot read, and that may be a Secret; and it reads however much comes.
    async fn read(&self, request: http::Request<Vec<u8>>) -> kube::Result<Text<'_>> {
        let mut answer = self.client.request_stream(request).await?;
        let mut text = Vec::new();
        let mut start = (&mut answer).take(SHORT_ANSWER);
        let read = start.read_to_end(&mut text).await;
        read.map_err(kube::Error::ReadEvents)?;
        if length(&text) < SHORT_ANSWER {
            return Ok((text, None));
        }
        let turn = self.allowance.long_answer().await;
        let mut rest = answer.take(ANSWER_MAX + 1 - SHORT_ANSWER);
        let read = rest.read_to_end(&mut text).await;
        read.map_err(kube::Error::ReadEvents)?;
        Ok((text, turn))
    }
}

/// The text of an answer, and its turn if it is long.
type Text<'a> = (Vec<u8>, Option<SemaphorePermit<'a>>);

fn length(text: &[u8]) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

fn no_room(why: FailureKind) -> RequestError {
    let text = match why {
        FailureKind::TooLong => "the objects are too large together, select fewer",
        _ => "too many large objects are being looked at",
    };
    failed(why, text.to_owned())
}

/// What was asked for; none if there is no such object.
fn if_there<T>(answer: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.kind == FailureKind::Missing => Ok(None),
        Err(error) => Err(error),
    }
}

/// The error of a request that names no object: none can be missing, only the kind.
fn no_object(kind: &ServedKind, error: RequestError) -> RequestError {
    match error.kind {
        FailureKind::Missing => kind.not_served(),
        _ => error,
    }
}

/// What others say of an object goes into statuses and logs: it is cut, and stays in one line.
fn failed(kind: FailureKind, message: String) -> RequestError {
    let message = at_most(MESSAGE_MAX, message).replace(char::is_control, " ");
    RequestError { kind, message }
}

fn read_status(status: Status) -> RequestError {
    // Without a name, the kind is not there: a 404 in plain text is from a server that knows nothing of the group.
    let names_object = status.details.iter().any(|it| !it.name.is_empty());
    let kind = match status.code {
        _ if status.reason == reason::NOT_FOUND && names_object => FailureKind::Missing,
        401 | 403 => FailureKind::Forbidden,
        404 => FailureKind::NotServed,
        409 => FailureKind::Conflict,
        // The page of a list is too old: the next attempt begins with the first.
        408 | 410 | 429 | 500.. => FailureKind::Transient,
        _ => FailureKind::Refused,
    };
    failed(kind, status.message)
}

impl Place<'_> {
    fn url(&self) -> String {
        DynamicObject::url_path(&self.kind.resource, self.namespace)
    }
}

/// Writes a name as a segment of a URL's path.
fn segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                segment.push(char::from(byte));
            }
            // Writing to a string never fails.
            _ => drop(write!(segment, "%{byte:02X}")),
        }
    }
    segment
}

/// All looks together, in bytes.
const TOTAL: usize = 512 << 20;
/// Those for Cleaners of one namespace, so that none can keep the others out.
const OF_ONE_NAMESPACE: usize = TOTAL / 2;
/// How many long answers are read at once. Their text takes memory too, until it is parsed.
const LONG_ANSWERS: usize = 6;

/// How much memory the objects that are being looked at may take together. Whoever fills a namespace with large objects must not be able
/// to stop the operator. Cheap to clone; all clones share it.
///
/// There is no queue: a look that finds no room is made again later, and holds nothing until then.
#[derive(Clone)]
pub(super) struct Allowance {
    /// What is taken, in bytes, by the namespaces of the Cleaners.
    taken: Arc<Mutex<HashMap<Arc<str>, usize>>>,
    long: Arc<Semaphore>,
}

/// What the objects of one target take, until it is dropped.
pub(super) struct Share {
    allowance: Allowance,
    namespace: Arc<str>,
    bytes: usize,
}

impl Allowance {
    /// Returns one of which nothing is taken.
    pub(super) fn new() -> Self {
        Self {
            taken: Arc::default(),
            long: Arc::new(Semaphore::new(LONG_ANSWERS)),
        }
    }

    /// Returns an empty share for a target of a Cleaner in this namespace.
    pub(super) fn share(&self, namespace: &str) -> Share {
        Share {
            allowance: self.clone(),
            namespace: Arc::from(namespace),
            bytes: 0,
        }
    }

    /// Waits until another long answer may be read.
    pub(super) async fn long_answer(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.long.acquire().await.ok()
    }
}

impl Share {
    /// Takes what a text will take once it is parsed.
    ///
    /// # Errors
    ///
    /// If this target alone takes too much, or others take it now.
    pub(super) fn grow(&mut self, text: &[u8]) -> Result<(), FailureKind> {
        self.take(weight(text))
    }

    fn take(&mut self, bytes: usize) -> Result<(), FailureKind> {
        if self.bytes + bytes > OF_ONE_NAMESPACE {
            return Err(FailureKind::TooLong);
        }
        let mut taken = lock(&self.allowance.taken);
        let all: usize = taken.values().sum();
        let of_namespace = taken.get(&self.namespace).copied().unwrap_or_default();
        if all + bytes > TOTAL || of_namespace + bytes > OF_ONE_NAMESPACE {
            return Err(FailureKind::Transient);
        }
        taken.insert(Arc::clone(&self.namespace), of_namespace + bytes);
        drop(taken);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = lock(&self.allowance.taken);
        if let Some(of_namespace) = taken.get_mut(&self.namespace) {
            *of_namespace -= self.bytes;
            if *of_namespace == 0 {
                taken.remove(&self.namespace);
            }
        }
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

/// What an object takes says nothing about it.
impl PartialEq for Share {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// About what a JSON text takes once it is parsed, and once more for conditions. A map is a tree whose nodes have room for eleven fields
/// each, so one with a short field takes a hundred times its text.
fn weight(text: &[u8]) -> usize {
    // One pass for each character is faster than one that looks at each byte: such a pass compares many bytes at once.
    let count = |wanted: u8| text.iter().filter(|&&byte| byte == wanted).count();
    let weights = [(b'{', 704), (b'[', 128), (b',', 96), (b'"', 16)];
    let more = weights.map(|(byte, size)| size * count(byte));
    2 * text.len() + more.iter().sum::<usize>()
}

#[cfg(test)]
mod tests;
