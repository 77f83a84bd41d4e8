//! What the webhooks know about namespaces: a cache, and a question to the API server about those that are too new for it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use podloom_controllers::AdmissionCaches;
use podloom_engine::namespaces::about;
use podloom_mutation::NamespaceMetadata;
use podloom_turns::lock;
use tokio::time::timeout_at;

use crate::PeerTurns;
use crate::mutate::Namespaces;
use crate::review::Tenant;

/// How long a question to the API server may take, and how long it may wait for its turn before. On a busy cluster, a second was too
/// short.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long nothing is asked after the API server refused an answer. A right may be missing for a moment: while its role binding is
/// replaced.
const PAUSE: Duration = Duration::from_secs(2);

/// The namespaces of a cluster.
pub struct ClusterNamespaces {
    caches: AdmissionCaches,
    api: Api<Namespace>,
    /// Namespaces may not be read: no question is asked before.
    quiet_until: Mutex<Option<Instant>>,
    questions: PeerTurns,
}

impl ClusterNamespaces {
    /// Answers from these caches, and asks the API server about namespaces that they do not have, in these turns.
    pub fn new(client: &Client, caches: AdmissionCaches, questions: PeerTurns) -> Self {
        Self {
            caches,
            api: Api::all(client.clone()),
            quiet_until: Mutex::default(),
            questions,
        }
    }

    /// Asks the API server. It is a list of one object, since the right to list is the one that the cache needs, too.
    ///
    /// Without that right, or without an answer, nothing is known: a plugin that looks for a label must not be skipped because it may
    /// not be read for now, or because the API server is slow.
    async fn ask(&self, asker: &Tenant, deadline: Instant) -> Option<NamespaceMetadata> {
        let (peer, name) = asker;
        if !is_name(name) {
            return Some(NamespaceMetadata::nothing_but(name));
        }
        if self.is_quiet() {
            return None;
        }
        let turn = self.questions.take(*peer, name.clone());
        let _turn = timeout_at(patience(deadline), turn).await.ok()?.ok()?;
        // Others were refused meanwhile.
        if self.is_quiet() {
            return None;
        }
        let one = ListParams::default()
            .fields(&format!("metadata.name={name}"))
            .limit(1);
        match timeout_at(patience(deadline), self.api.list_metadata(&one)).await {
            Ok(Ok(found)) => Some(found.items.into_iter().next().map_or_else(
                || NamespaceMetadata::nothing_but(name),
                |namespace: PartialObjectMeta<Namespace>| about(namespace.metadata),
            )),
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => {
                let pause = Some(Instant::now() + PAUSE);
                *lock(&self.quiet_until) = pause;
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }

    fn is_quiet(&self) -> bool {
        let until = *lock(&self.quiet_until);
        until.is_some_and(|until| Instant::now() < until)
    }
}

impl Namespaces for ClusterNamespaces {
    fn of<'a>(
        &'a self,
        asker: &'a Tenant,
        deadline: Instant,
    ) -> BoxFuture<'a, Option<NamespaceMetadata>> {
        async move {
            match self.caches.namespace(&asker.1) {
                Some(known) => Some(known),
                None => self.ask(asker, deadline).await,
            }
        }
        .boxed()
    }
}

/// Until when to wait, from now on.
fn patience(deadline: Instant) -> tokio::time::Instant {
    (tokio::time::Instant::now() + PATIENCE).min(deadline.into())
}

/// Whether a text can be the name of a namespace, so that it means nothing else in a field selector.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::{Request, Response};
    use kube::Client;
    use podloom_controllers::AdmissionCaches;
    use podloom_turns::Limits;
    use serde_json::json;
    use tokio::time::{Instant, sleep};
    use tower::service_fn;

    use super::{ClusterNamespaces, Namespaces};
    use crate::PeerTurns;

    /// Seen: whoever reached the webhook could have all others wait for their namespaces.
    #[tokio::test(start_paused = true)]
    async fn a_stranger_who_invents_namespaces_keeps_nobody_waiting() {
        let service = service_fn(|_: Request<kube::client::Body>| async {
            sleep(Duration::from_millis(10)).await;
            let list = json!({ "metadata": {}, "items": [] });
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(list.to_string())))
        });
        let (client, caches) = (
            Client::new(service, "default"),
            AdmissionCaches::of([], [], []),
        );
        let turns = PeerTurns::new(Limits::for_each(4, 1024));
        let namespaces = Arc::new(ClusterNamespaces::new(&client, caches, turns));
        let ask = |peer: u8, name: String| {
            let namespaces = Arc::clone(&namespaces);
            async move {
                let deadline = Instant::now() + Duration::from_secs(5);
                let asker = (Some([10, 0, 0, peer].into()), name);
                namespaces.of(&asker, deadline.into_std()).await
            }
        };
        for number in 0..400 {
            tokio::spawn(ask(66, format!("invented-{number}")));
        }
        sleep(Duration::from_millis(1)).await;
        let begun = Instant::now();
        let known = ask(1, "team".to_owned()).await.expect("an answer");
        assert_eq!(known.labels["kubernetes.io/metadata.name"], "team");
        let waited = begun.elapsed();
        assert!(waited <= Duration::from_millis(20), "{waited:?}");
    }
}
