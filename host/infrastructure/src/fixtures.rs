//! Fixtures for tests: caches of our kinds.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use futures::future::BoxFuture;
use futures::{FutureExt, future};
use kube::core::ApiResource;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use kube::{Client, Resource};
use podloom_api::InfrastructureKind;
use podloom_engine::optional::OptionalCache;
use podloom_engine::readable::Readable;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::im::{Answer, Call, Failure, FailureKind, InfrastructureManager, Sent, Target};
use super::in_use::{Known, Live, Resources};
use super::resolve::{Caches, TwinResources, Twins};
use super::secrets::{SecretMeta, SecretMetas, SecretMetasOf};
use super::waking::{Scope, Waking};

/// The finalizer on what Clusters need.
pub(crate) const IN_USE: &str = "infrastructure.podloom.dev/in-use";
/// The finalizer on Clusters.
pub(crate) const OURS: &str = "infrastructure.podloom.dev/infrastructure-resources";
/// The namespace of the Secrets of cluster-scoped objects.
pub(crate) const SYSTEM: &str = "podloom-system";

/// The resources of our kinds.
pub(crate) fn resources() -> Resources {
    use InfrastructureKind as Kind;
    let of = |kind: Kind| Arc::new(kind.resource());
    Resources {
        clusters: of(Kind::Cluster),
        clouds: TwinResources {
            namespaced: of(Kind::Cloud),
            global: of(Kind::GlobalCloud),
        },
        providers: TwinResources {
            namespaced: of(Kind::InfrastructureProvider),
            global: of(Kind::GlobalInfrastructureProvider),
        },
    }
}

/// A cache of these objects.
pub(crate) fn cache<K>(resource: &Arc<ApiResource>, objects: &[Value]) -> Store<Readable<K>>
where
    K: Resource<DynamicType = ApiResource> + Clone + 'static,
    Readable<K>: DeserializeOwned,
{
    let mut writer = Writer::new(Arc::clone(resource));
    for object in objects {
        let object = serde_json::from_value(object.clone()).unwrap();
        writer.apply_watcher_event(&Event::Apply(object));
    }
    writer.as_reader()
}

/// What wakes objects where all namespaces are watched.
pub(crate) fn waking() -> Waking {
    Waking([Scope::of(None)].into())
}

/// Caches of Clouds and providers. Objects without a namespace are cluster-scoped.
pub(crate) fn caches(clouds: &[Value], providers: &[Value]) -> Caches {
    let Resources {
        clouds: of_clouds,
        providers: of_providers,
        ..
    } = resources();
    Caches {
        clouds: twins(of_clouds, clouds),
        providers: twins(of_providers, providers),
        global_secret_namespace: SYSTEM.into(),
    }
}

fn twins<K>(resources: TwinResources, objects: &[Value]) -> Twins<K>
where
    K: Resource<DynamicType = ApiResource> + Clone + 'static,
    Readable<K>: DeserializeOwned,
{
    let is_namespaced = |it: &Value| it["metadata"].get("namespace").is_some();
    let (namespaced, global): (Vec<_>, Vec<_>) = objects.iter().cloned().partition(is_namespaced);
    Twins {
        namespaced: cache(&resources.namespaced, &namespaced),
        global: OptionalCache::of(cache(&resources.global, &global)),
        resources,
    }
}

/// What is known of one watch scope.
pub(crate) fn known(clusters: &[Value], caches: Caches) -> Known {
    Known {
        clusters: [cache(&resources().clusters, clusters)].into(),
        caches: [caches].into(),
    }
}

/// What reads the users of objects from this API server, all namespaces watched.
pub(crate) fn live(client: &Client, known: &Known) -> Live {
    Live {
        client: client.clone(),
        known: known.clone(),
        watched: [None].into(),
        resources: resources(),
        global_secret_namespace: SYSTEM.into(),
    }
}

/// The metadata of these Secrets, all namespaces readable.
pub(crate) fn metas(secrets: &[Value]) -> SecretMetas {
    let mut writer = Writer::<SecretMeta>::default();
    for secret in secrets {
        let secret = serde_json::from_value(secret.clone()).unwrap();
        writer.apply_watcher_event(&Event::Apply(secret));
    }
    let cache = OptionalCache::of(writer.as_reader());
    SecretMetas(
        [SecretMetasOf {
            namespace: None,
            cache,
        }]
        .into(),
    )
}

/// A Cluster `a` of the namespace `team` on its Cloud `dummy`, with these changes.
pub(crate) fn cluster(changes: &Value) -> Value {
    let mut cluster = json!({
        "metadata": { "name": "a", "namespace": "team", "uid": "uid-of-a", "generation": 1, "resourceVersion": "7" },
        "spec": {
            "tosca": { "topology_template": { "outputs": { "kubeconfig": {} } } },
            "cloudRef": { "kind": "Cloud", "name": "dummy" },
        },
    });
    json_patch::merge(&mut cluster, changes);
    cluster
}

/// A Cloud `dummy` that names a provider `im` of this kind, and the Secret `cloud`.
pub(crate) fn cloud(namespace: Option<&str>, provider: &str) -> Value {
    let spec = json!({
        "providerRef": { "kind": provider, "name": "im" },
        "generic": { "type": "Dummy", "secretParameters": { "token": { "name": "cloud" } } },
    });
    object(namespace, "dummy", &spec)
}

/// A provider `im` with this URL that names the Secret `account`, and its key `old` as the previous password.
pub(crate) fn provider(namespace: Option<&str>, url: &str) -> Value {
    let account = json!({
        "username": "us",
        "passwordSecretRef": { "name": "account" },
        "previousPasswordSecretRef": { "name": "account", "key": "old" },
    });
    object(
        namespace,
        "im",
        &json!({ "im": { "url": url, "basic": account } }),
    )
}

/// An object in a namespace, or a cluster-scoped one, with our finalizer.
fn object(namespace: Option<&str>, name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "metadata": {
            "name": name, "uid": format!("uid-of-{name}"), "generation": 1, "resourceVersion": "7", "finalizers": [IN_USE],
        },
        "spec": spec,
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// What a scripted Infrastructure Manager was asked, by the label of the metrics.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<&'static str>>>);

impl Asked {
    /// Returns what was asked so far.
    pub(crate) fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// Answers what a function says.
struct Scripted<F> {
    answer: F,
    asked: Asked,
}

impl<F> InfrastructureManager for Scripted<F>
where
    F: Fn(&Target, &Call) -> Result<Answer, FailureKind> + Send + Sync + 'static,
{
    fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        self.asked.0.lock().unwrap().push(call.operation());
        let answer = (self.answer)(target, call);
        let answer = answer.map_err(|kind| Failure {
            kind,
            message: format!("{} failed", call.operation()),
            sent: Sent::Refused,
        });
        future::ready(answer).boxed()
    }
}

/// An Infrastructure Manager that answers what a function says, and what it was asked.
pub(crate) fn manager(
    answer: impl Fn(&Target, &Call) -> Result<Answer, FailureKind> + Send + Sync + 'static,
) -> (Arc<dyn InfrastructureManager>, Asked) {
    let asked = Asked::default();
    let scripted = Scripted {
        answer,
        asked: asked.clone(),
    };
    (Arc::new(scripted), asked)
}

/// A Secret of a namespace with these values, as the API server answers it.
pub(crate) fn secret(namespace: &str, name: &str, values: &[(&str, &str)]) -> Value {
    let encoded = values.iter().map(|(key, value)| {
        let value = base64::engine::general_purpose::STANDARD.encode(value);
        ((*key).to_owned(), Value::String(value))
    });
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": namespace },
        "data": encoded.collect::<serde_json::Map<_, _>>(),
    })
}
