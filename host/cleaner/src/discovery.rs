//! Finds the kinds that the API server serves, each version of a group by itself: one that is broken hides no other.

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
use tokio::time::{Instant, timeout};

use super::checked::KindReference;
use super::failure::{FailureKind, RequestError};
use super::served::{ServedKind, group_version};

/// How long a kind that was not found is not looked for again.
const MISS: Duration = Duration::from_secs(30);
/// How long a version that could not be read is not read again.
const FAILURE: Duration = Duration::from_secs(1);
/// How many versions are known at most: charts and specs name what they like.
const VERSIONS_MAX: usize = 1000;
/// How long reading a version may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a kind was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KindError {
    /// The API server serves no such kind.
    Unknown(String),
    /// That is not known: the version of the group could not be read.
    Request(RequestError),
}

/// The kinds of the cluster. Cheap to clone; all clones share what they know.
#[derive(Clone)]
pub(super) struct Discovery(Arc<Inner>);

struct Inner {
    client: Client,
    /// By group and version. Each is read by one task at a time.
    versions: Mutex<HashMap<(String, String), Arc<Version>>>,
}

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
        Self(Arc::new(Inner {
            client,
            versions: Mutex::default(),
        }))
    }

    /// Finds a kind: one that is written exactly so, else one that differs only in the case of its letters.
    pub(super) async fn find(&self, kind: &KindReference) -> Result<Arc<ServedKind>, KindError> {
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
        let mut versions = lock(&self.0.versions);
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
        let client = &self.0.client;
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
    fn answer(&self, kind: &KindReference) -> Option<Result<Arc<ServedKind>, KindError>> {
        let answer = self.found(kind);
        let valid_for = match &answer {
            Ok(_) => return Some(answer),
            Err(KindError::Unknown(_)) => MISS,
            Err(KindError::Request(_)) => FAILURE,
        };
        (self.at.elapsed() < valid_for).then_some(answer)
    }

    fn found(&self, kind: &KindReference) -> Result<Arc<ServedKind>, KindError> {
        let kinds = self
            .kinds
            .as_ref()
            .map_err(|error| KindError::Request(error.clone()))?;
        let name = |served: &&Arc<ServedKind>| served.resource.kind == kind.kind;
        let any_case =
            |served: &&Arc<ServedKind>| served.resource.kind.eq_ignore_ascii_case(&kind.kind);
        let found = kinds
            .iter()
            .find(name)
            .or_else(|| kinds.iter().find(any_case));
        found.map(Arc::clone).ok_or_else(|| {
            KindError::Unknown(format!(
                "the API server serves no kind {} in {}",
                kind.kind,
                group_version(&kind.group, &kind.version)
            ))
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

impl fmt::Display for KindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(message) => f.write_str(message),
            Self::Request(error) => write!(f, "{error}"),
        }
    }
}

#[cfg(test)]
mod tests;
