//! What the webhooks know about namespaces: a cache, and a question to the API server about those that are too new for it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use podloom_controllers::AdmissionCaches;
use tokio::time::timeout_at;

use crate::mutate::{NamespaceMetadata, Namespaces};

/// How long a question to the API server may take. Without an answer the plugins see no labels and annotations.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long nothing is asked after the API server refused an answer or gave none.
const PAUSE: Duration = Duration::from_secs(30);

/// The namespaces of a cluster.
pub struct ClusterNamespaces {
    caches: AdmissionCaches,
    api: Api<Namespace>,
    /// No question is asked before.
    quiet_until: Mutex<Option<Instant>>,
}

impl ClusterNamespaces {
    /// Answers from these caches, and asks the API server about namespaces that they do not have.
    pub fn new(client: &Client, caches: AdmissionCaches) -> Self {
        Self {
            caches,
            api: Api::all(client.clone()),
            quiet_until: Mutex::default(),
        }
    }

    /// Asks the API server. It is a list of one object, since the right to list is the one that the cache needs, too.
    async fn ask(&self, name: &str, deadline: Instant) -> Option<NamespaceMetadata> {
        if self.is_quiet() || !is_name(name) {
            return None;
        }
        let one = ListParams::default()
            .fields(&format!("metadata.name={name}"))
            .limit(1);
        let end = deadline.min(Instant::now() + PATIENCE);
        let asked = timeout_at(end.into(), self.api.list_metadata(&one));
        let Ok(Ok(found)) = asked.await else {
            let pause = Some(Instant::now() + PAUSE);
            *self
                .quiet_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = pause;
            return None;
        };
        let namespace: PartialObjectMeta<Namespace> = found.items.into_iter().next()?;
        Some(NamespaceMetadata {
            labels: namespace.metadata.labels.unwrap_or_default(),
            annotations: namespace.metadata.annotations.unwrap_or_default(),
        })
    }

    fn is_quiet(&self) -> bool {
        let until = *self
            .quiet_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }
}

impl Namespaces for ClusterNamespaces {
    fn of<'a>(&'a self, name: &'a str, deadline: Instant) -> BoxFuture<'a, NamespaceMetadata> {
        async move {
            if let Some((labels, annotations)) = self.caches.namespace(name) {
                return NamespaceMetadata {
                    labels,
                    annotations,
                };
            }
            self.ask(name, deadline).await.unwrap_or_default()
        }
        .boxed()
    }
}

/// Whether a text can be the name of a namespace, so that it means nothing else in a field selector.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_inner)
}
