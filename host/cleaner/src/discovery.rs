//! The kinds that the API server serves, and why a request for one may fail.
//!
//! Each version of a group is read by itself: one that is broken hides no other.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::Client;
use kube::core::ApiResource;
use podloom_engine::kind::ResourceScope;
use podloom_engine::plain::plain;
use podloom_turns::lock;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use crate::checked::KindReference;

/// How long a kind that was not found is not looked for again.
const MISS: Duration = Duration::from_secs(30);
/// How long a version that could not be read is not read again.
const FAILURE: Duration = Duration::from_secs(1);
/// How many versions are known at most: charts and specs name what they like.
const VERSIONS_MAX: usize = 1000;
/// How long reading a version may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The kinds of the cluster. Cheap to clone; all clones share what they know.
#[derive(Clone)]
pub(super) struct Discovery {
    client: Client,
    /// By group and version. Each is read by one task at a time.
    versions: Arc<Mutex<Versions>>,
}

type Versions = HashMap<(String, String), Arc<Version>>;

/// A version of a group.
type Version = tokio::sync::Mutex<Option<Known>>;

/// What is known of a version.
#[derive(Clone)]
struct Known {
    kinds: Result<Arc<[Arc<ServedKind>]>, RequestError>,
    at: Instant,
}

impl Discovery {
    /// Returns one that knows nothing yet.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            versions: Arc::default(),
        }
    }

    /// Finds a kind: one that is written exactly so, else one that differs only in the case of its letters.
    ///
    /// # Errors
    ///
    /// If the API server serves no such kind, or if that is not known, since the version of its group could not be read.
    pub(super) async fn find(&self, kind: &KindReference) -> Result<Arc<ServedKind>, RequestError> {
        let version = self.version(kind);
        let mut known = version.lock().await;
        if let Some(known) = &*known
            && let Some(answer) = known.answer(kind)
        {
            return answer;
        }
        let read = Known {
            kinds: self.read(&kind.group, &kind.version).await,
            at: Instant::now(),
        };
        let answer = read.found(kind);
        *known = Some(read);
        answer
    }

    /// Forgets what is known of the version of a kind, since the API server does not serve it any more.
    pub(super) async fn forget(&self, kind: &KindReference) {
        *self.version(kind).lock().await = None;
    }

    fn version(&self, kind: &KindReference) -> Arc<Version> {
        let mut versions = lock(&self.versions);
        let key = (kind.group.clone(), kind.version.clone());
        if versions.len() >= VERSIONS_MAX && !versions.contains_key(&key) {
            // Whoever names what does not exist must not have all others ask again.
            versions.retain(|_, version| is_served(version));
            if versions.len() >= VERSIONS_MAX {
                versions.clear();
            }
        }
        Arc::clone(versions.entry(key).or_default())
    }

    async fn read(
        &self,
        group: &str,
        version: &str,
    ) -> Result<Arc<[Arc<ServedKind>]>, RequestError> {
        let client = &self.client;
        let reading = async {
            match group {
                "" => client.list_core_api_resources(version).await,
                group => {
                    client
                        .list_api_group_resources(&format!("{group}/{version}"))
                        .await
                }
            }
        };
        let transient = |message| RequestError {
            kind: FailureKind::Transient,
            message,
        };
        match timeout(REQUEST_TIMEOUT, reading).await {
            Ok(Ok(list)) => Ok(kinds(group, version, &list)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(Arc::from([])),
            Ok(Err(error)) => Err(transient(format!(
                "the API server does not say which kinds {} has: {}",
                group_version(group, version),
                plain(&error)
            ))),
            Err(_) => Err(transient(format!(
                "the API server does not say within {} s which kinds {} has",
                REQUEST_TIMEOUT.as_secs(),
                group_version(group, version)
            ))),
        }
    }
}

/// Whether a version has kinds, as far as that is known.
fn is_served(version: &Version) -> bool {
    let known = version.try_lock();
    known.is_ok_and(|known| {
        let kinds = known.as_ref().and_then(|known| known.kinds.as_ref().ok());
        kinds.is_some_and(|kinds| !kinds.is_empty())
    })
}

impl Known {
    /// The answer, unless it is too old.
    fn answer(&self, kind: &KindReference) -> Option<Result<Arc<ServedKind>, RequestError>> {
        let answer = self.found(kind);
        let valid_for = match &answer {
            Ok(_) => return Some(answer),
            Err(error) if error.kind == FailureKind::NotServed => MISS,
            Err(_) => FAILURE,
        };
        (self.at.elapsed() < valid_for).then_some(answer)
    }

    fn found(&self, kind: &KindReference) -> Result<Arc<ServedKind>, RequestError> {
        let kinds = self.kinds.as_ref().map_err(Clone::clone)?;
        let name = |served: &&Arc<ServedKind>| served.resource.kind == kind.kind;
        let any_case =
            |served: &&Arc<ServedKind>| served.resource.kind.eq_ignore_ascii_case(&kind.kind);
        let found = kinds
            .iter()
            .find(name)
            .or_else(|| kinds.iter().find(any_case));
        found.map(Arc::clone).ok_or_else(|| RequestError {
            kind: FailureKind::NotServed,
            message: format!(
                "the API server serves no kind {} in {}",
                kind.kind,
                group_version(&kind.group, &kind.version)
            ),
        })
    }
}

/// The kinds of a version, without subresources.
fn kinds(group: &str, version: &str, list: &APIResourceList) -> Arc<[Arc<ServedKind>]> {
    let kinds = list.resources.iter().filter(|it| !it.name.contains('/'));
    kinds
        .map(|it| Arc::new(served(group, version, it)))
        .collect()
}

fn served(group: &str, version: &str, found: &APIResource) -> ServedKind {
    ServedKind {
        resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: group_version(group, version),
            kind: found.kind.clone(),
            plural: found.name.clone(),
        },
        scope: match found.namespaced {
            true => ResourceScope::Namespaced,
            false => ResourceScope::Cluster,
        },
    }
}

/// Why a request did not do what it was for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct RequestError {
    /// What kind of failure it is.
    pub(super) kind: FailureKind,
    /// A sentence for people.
    pub(super) message: String,
}

/// Why a request did not do what it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FailureKind {
    /// The operator has no right to do it.
    Forbidden,
    /// The API server does not serve the kind.
    NotServed,
    /// There is no object of this name.
    Missing,
    /// The object is not what it was: it has another UID, or somebody else was faster.
    Conflict,
    /// The list has too many objects.
    TooLong,
    /// The API server calls it wrong, or admission refused it.
    Refused,
    /// It may go well later: no answer, too many requests, an internal error.
    Transient,
}

impl RequestError {
    /// Returns whether the same request may go well soon.
    pub(super) fn is_transient(&self) -> bool {
        self.kind == FailureKind::Transient
    }
}

const API_VERSION: &str = "apiVersion";
const KIND: &str = "kind";

/// A kind, by what its URLs have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KindKey {
    /// The API group; empty for the core.
    pub(super) group: String,
    /// The version.
    pub(super) version: String,
    /// The plural.
    pub(super) plural: String,
}

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServedKind {
    /// What its URLs and objects have.
    pub(super) resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub(super) scope: ResourceScope,
}

impl ServedKind {
    /// Returns a kind whose objects are in namespaces.
    pub(super) fn namespaced(resource: ApiResource) -> Self {
        Self {
            resource,
            scope: ResourceScope::Namespaced,
        }
    }

    /// Returns what tells it from other kinds.
    pub(super) fn key(&self) -> KindKey {
        KindKey {
            group: self.resource.group.clone(),
            version: self.resource.version.clone(),
            plural: self.resource.plural.clone(),
        }
    }

    /// Returns whether it has this group and this name.
    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        (&*self.resource.group, &*self.resource.kind) == (group, kind)
    }

    /// Returns the namespace of its objects, for a Cleaner in this one; none if they are in none.
    pub(super) fn namespace<'a>(&self, of_cleaner: &'a str) -> Option<&'a str> {
        match self.scope {
            ResourceScope::Namespaced => Some(of_cleaner),
            ResourceScope::Cluster => None,
        }
    }

    /// Fills in what the API server leaves out in lists of its own kinds.
    pub(super) fn completed(&self, mut object: Value) -> Value {
        if let Value::Object(fields) = &mut object {
            let resource = &self.resource;
            let missing = |value: Option<&Value>| value.is_none_or(|value| value == "");
            if missing(fields.get(API_VERSION)) {
                fields.insert(API_VERSION.to_owned(), resource.api_version.clone().into());
            }
            if missing(fields.get(KIND)) {
                fields.insert(KIND.to_owned(), resource.kind.clone().into());
            }
        }
        object
    }

    /// Returns a list as CEL sees it.
    pub(super) fn list(&self, metadata: Value, items: Vec<Value>) -> Value {
        // Not by `json!`, which would copy the objects.
        Value::Object(Map::from_iter([
            (
                API_VERSION.to_owned(),
                self.resource.api_version.clone().into(),
            ),
            (
                KIND.to_owned(),
                format!("{}List", self.resource.kind).into(),
            ),
            ("metadata".to_owned(), metadata),
            ("items".to_owned(), items.into()),
        ]))
    }

    /// Returns the error for an answer that is no list, although it was asked for one.
    pub(super) fn no_list(&self) -> RequestError {
        RequestError {
            kind: FailureKind::Transient,
            message: format!(
                "the answer of the API server is no list of {}",
                self.resource.plural
            ),
        }
    }

    /// Returns the error for a request that found the kind gone.
    pub(super) fn not_served(&self) -> RequestError {
        RequestError {
            kind: FailureKind::NotServed,
            message: format!(
                "the API server does not serve {} any more",
                self.resource.plural
            ),
        }
    }
}

impl fmt::Display for KindKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        match self.group.as_str() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

/// Writes a group and a version as `apiVersion` has them.
pub(super) fn group_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

#[cfg(test)]
mod tests;
