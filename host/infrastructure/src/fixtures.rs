//! Fixtures for tests: caches of our kinds.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use futures::future::BoxFuture;
use futures::{FutureExt, future};
use kube::{Client, Resource};
use podloom_api::InfrastructureKind;
use podloom_engine::cache::{Cache, Cacheable, Watch};
use podloom_engine::readable::Readable;
use serde_json::{Value, json};

use super::im::{Answer, Call, Failure, FailureKind, InfrastructureManager, Sent, Target};
use super::in_use::{Known, Live, Resources};
use super::resolve::{Caches, TwinResources, Twins};
use super::secrets::SecretMetas;

/// The finalizer on what Clusters need.
pub(crate) const IN_USE: &str = "infrastructure.podloom.dev/in-use";
/// The finalizer on Clusters.
pub(crate) const OURS: &str = "infrastructure.podloom.dev/infrastructure-resources";
/// The namespace of the Secrets of cluster-scoped objects.
pub(crate) const SYSTEM: &str = "podloom-system";

/// A kubeconfig, with what YAML allows.
pub(crate) const KUBECONFIG: &str = "# of the cluster\napiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n  - { name: a, cluster: { server: \"https://192.0.2.1:6443\" } }\nusers:\n  - { name: a, user: { token: not-a-secret } }\ncontexts:\n  - { name: a, context: { cluster: a, user: a } }\n";

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
fn cache<K>(watch: Watch<Readable<K>>, objects: &[Value]) -> Cache<Readable<K>>
where
    K: Resource,
    Readable<K>: Cacheable,
{
    let objects = objects.iter().cloned();
    Cache::of(watch, objects.map(|it| serde_json::from_value(it).unwrap()))
}

/// Caches of Clouds and providers. Objects without a namespace are cluster-scoped.
pub(crate) fn caches(clouds: &[Value], providers: &[Value]) -> Caches {
    let resources = resources();
    let is_namespaced = |it: &Value| it["metadata"].get("namespace").is_some();
    let split = |all: &[Value]| -> (Vec<Value>, Vec<Value>) {
        all.iter().cloned().partition(is_namespaced)
    };
    let ((clouds, global_clouds), (providers, global_providers)) =
        (split(clouds), split(providers));
    let (of_clouds, of_providers) = (resources.clouds, resources.providers);
    Caches {
        clouds: Twins {
            namespaced: cache(Watch::ours("", "", &of_clouds.namespaced), &clouds),
            global: cache(Watch::ours("", "", &of_clouds.global), &global_clouds),
        },
        providers: Twins {
            namespaced: cache(Watch::ours("", "", &of_providers.namespaced), &providers),
            global: cache(Watch::ours("", "", &of_providers.global), &global_providers),
        },
        global_secret_namespace: SYSTEM.into(),
    }
}

/// What is known of these Clusters, and of what they can name.
pub(crate) fn known(clusters: &[Value], caches: Caches) -> Known {
    let resource = resources().clusters;
    Known {
        clusters: cache(Watch::ours("", "", &resource), clusters),
        caches,
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
    let secrets = secrets.iter().cloned();
    let secrets = secrets.map(|secret| serde_json::from_value(secret).unwrap());
    SecretMetas(Cache::of(Watch::of("Secret", "Secrets"), secrets))
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
