//! What the webhooks know about namespaces: a cache, and a question to the API server about those that are too new for it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use podloom_controllers::{AdmissionCaches, NamespaceMetadata};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use crate::mutate::Namespaces;

/// How long a question to the API server may take. On a busy cluster, a second was too short.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long nothing is asked after the API server refused an answer. A right may be missing for a moment: while its role binding is
/// replaced.
const PAUSE: Duration = Duration::from_secs(2);
/// How many questions are asked at once.
const QUESTIONS: usize = 4;

/// The namespaces of a cluster.
pub struct ClusterNamespaces {
    caches: AdmissionCaches,
    api: Api<Namespace>,
    /// Namespaces may not be read: no question is asked before.
    quiet_until: Mutex<Option<Instant>>,
    questions: Semaphore,
}

impl ClusterNamespaces {
    /// Answers from these caches, and asks the API server about namespaces that they do not have.
    pub fn new(client: &Client, caches: AdmissionCaches) -> Self {
        Self {
            caches,
            api: Api::all(client.clone()),
            quiet_until: Mutex::default(),
            questions: Semaphore::new(QUESTIONS),
        }
    }

    /// Asks the API server. It is a list of one object, since the right to list is the one that the cache needs, too.
    ///
    /// Without that right, or without an answer, nothing is known: a plugin that looks for a label must not be skipped because it may
    /// not be read for now, or because the API server is slow.
    async fn ask(&self, name: &str, deadline: Instant) -> Option<NamespaceMetadata> {
        if !is_name(name) {
            return Some(NamespaceMetadata::nothing_but(name));
        }
        if self.is_quiet() {
            return None;
        }
        let one = ListParams::default()
            .fields(&format!("metadata.name={name}"))
            .limit(1);
        let end = deadline.min(Instant::now() + PATIENCE);
        let asked = async {
            let _question = self.questions.acquire().await;
            self.api.list_metadata(&one).await
        };
        match timeout_at(end.into(), asked).await {
            Ok(Ok(found)) => Some(found.items.into_iter().next().map_or_else(
                || NamespaceMetadata::nothing_but(name),
                |namespace: PartialObjectMeta<Namespace>| namespace.metadata.into(),
            )),
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => {
                let pause = Some(Instant::now() + PAUSE);
                *self
                    .quiet_until
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = pause;
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
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
    fn of<'a>(
        &'a self,
        name: &'a str,
        deadline: Instant,
    ) -> BoxFuture<'a, Option<NamespaceMetadata>> {
        async move {
            match self.caches.namespace(name) {
                Some(known) => Some(known),
                None => self.ask(name, deadline).await,
            }
        }
        .boxed()
    }
}

/// Whether a text can be the name of a namespace, so that it means nothing else in a field selector.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_inner)
}
