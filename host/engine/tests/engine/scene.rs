//! What a test stands on: a namespace of its own, and waiting with a deadline.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use podloom_engine::kind::ResourceScope;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use crate::cluster::{Cluster, Request};
use crate::kind::{Variety, resource};

/// How long a single thing may take. Most take a fraction of a second; this is for machines that are busy with something else.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often is asked what cannot be watched.
const ASKING: Duration = Duration::from_millis(50);
/// How long a test may take before it counts as stuck.
const DEADLINE: Duration = Duration::from_mins(2);

/// The namespace of a test, and an administrator's view of it.
pub(crate) struct Scene {
    pub(crate) cluster: &'static Cluster,
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// Runs a test in a namespace of its own, if a control plane may be started.
pub(crate) fn engine(name: &str, test: impl AsyncFnOnce(Scene)) {
    if std::env::var_os("PODLOOM_CONTROL_PLANE").is_none() {
        eprintln!(
            "{name} is skipped: PODLOOM_CONTROL_PLANE is not set, as `cargo xtask test` does"
        );
        return;
    }
    let cluster = Cluster::shared();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let scene = Scene::new(cluster, name).await;
        within(name, DEADLINE, test(scene)).await;
    });
}

impl Scene {
    async fn new(cluster: &'static Cluster, name: &str) -> Self {
        let client = cluster.client().await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = json!({ "metadata": { "name": name } });
        let namespace = serde_json::from_value(namespace).unwrap();
        let plainly = PostParams::default();
        namespaces.create(&plainly, &namespace).await.unwrap();
        Self {
            cluster,
            client,
            namespace: name.to_owned(),
        }
    }

    /// The objects of a variety, as anybody sees them.
    pub(crate) fn lamps<V: Variety>(&self) -> Api<DynamicObject> {
        let (client, resource) = (self.client.clone(), resource::<V>());
        match V::TRAITS.scope {
            ResourceScope::Namespaced => Api::namespaced_with(client, &self.namespace, &resource),
            ResourceScope::Cluster => Api::all_with(client, &resource),
        }
    }

    pub(crate) fn children(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Names of objects that have no namespace are shared by all tests.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Creates a lamp, and returns its name.
    pub(crate) async fn create<V: Variety>(&self, name: &str, lights: Value) -> String {
        let name = self.name(name);
        let kind = resource::<V>();
        let lamp = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": { "name": name },
            "spec": { "place": self.namespace, "lights": lights },
        });
        let lamp = serde_json::from_value(lamp).unwrap();
        let (lamps, plainly) = (self.lamps::<V>(), PostParams::default());
        lamps.create(&plainly, &lamp).await.unwrap();
        name
    }

    /// Creates a lamp, and waits until it shines.
    pub(crate) async fn lit<V: Variety>(&self, name: &str, lights: Value) -> String {
        let name = self.create::<V>(name, lights).await;
        self.until_lit::<V>(&name).await;
        name
    }

    pub(crate) async fn until_lit<V: Variety>(&self, name: &str) -> DynamicObject {
        let lamps = self.lamps::<V>();
        until(&lamps, name, "shines", is_lit).await
    }

    /// Changes an object as somebody else would.
    pub(crate) async fn merge<V: Variety>(&self, name: &str, patch: Value) -> DynamicObject {
        let lamps = self.lamps::<V>();
        let patched = lamps.patch(name, &somebody(), &Patch::Merge(patch)).await;
        patched.unwrap()
    }

    /// Changes a status as somebody else would.
    pub(crate) async fn merge_status<V: Variety>(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let lamps = self.lamps::<V>();
        lamps.patch_status(name, &somebody(), &patch).await.unwrap();
    }

    /// Changes a ConfigMap as somebody else would.
    pub(crate) async fn merge_child(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        let children = self.children();
        children.patch(name, &somebody(), &patch).await.unwrap();
    }

    /// The requests of the engine about objects of a kind, `lamps` or `lamps/status`, of that name.
    pub(crate) fn requests(&self, verb: &str, resource: &str, name: &str) -> Vec<Request> {
        let requests = self.cluster.requests(resource, name).into_iter();
        requests.filter(|request| request.verb == verb).collect()
    }

    /// Waits until there are so many Events about an object, and returns them in their order.
    pub(crate) async fn events(&self, about: &DynamicObject, count: usize) -> Vec<Event> {
        let namespace = about.metadata.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let uid = about.metadata.uid.as_deref().unwrap();
        let of_it = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        eventually("events are there", async || {
            let mut found = events.list(&of_it).await.unwrap().items;
            found.sort_by_key(|event| event.event_time.clone());
            let reasons: Vec<_> = found.iter().map(|event| event.reason.clone()).collect();
            (found.len() >= count)
                .then_some(found)
                .ok_or(format!("{reasons:?}"))
        })
        .await
    }
}

/// A writer that is not the engine.
pub(crate) fn somebody() -> PatchParams {
    PatchParams {
        field_manager: Some("somebody".to_owned()),
        ..PatchParams::default()
    }
}

pub(crate) fn is_lit(lamp: &DynamicObject) -> bool {
    let ready = condition(lamp, "Ready");
    ready["status"] == "True" && ready["observedGeneration"] == json!(lamp.metadata.generation)
}

/// A condition of an object; null if it does not have it.
pub(crate) fn condition(object: &DynamicObject, type_: &str) -> Value {
    let conditions = object.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found.cloned().unwrap_or_default()
}

/// Waits until an object is as it should be, and returns it.
pub(crate) async fn until<K>(api: &Api<K>, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let condition = |seen: Option<&K>| seen.is_some_and(&is);
    match timeout(PATIENCE, await_condition(api.clone(), name, condition)).await {
        Ok(found) => found.unwrap().unwrap(),
        Err(_) => panic!(
            "{name} {what}: not in time, it is {:#?}",
            api.get_opt(name).await
        ),
    }
}

/// Waits until an object of that name is gone.
pub(crate) async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let is_gone = |seen: Option<&K>| seen.is_none();
    match timeout(PATIENCE, await_condition(api.clone(), name, is_gone)).await {
        Ok(gone) => assert!(gone.unwrap().is_none()),
        Err(_) => panic!(
            "{name} is gone: not in time, it is {:#?}",
            api.get_opt(name).await
        ),
    }
}

/// Waits for something, and fails if it does not happen in time.
pub(crate) async fn within<T>(what: &str, patience: Duration, work: impl Future<Output = T>) -> T {
    match timeout(patience, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {} s", patience.as_secs()),
    }
}

/// Waits for something, as long as is usual.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    within(what, PATIENCE, work).await
}

/// Asks until there is an answer, and fails with the last excuse if there is none in time. For what cannot be watched.
pub(crate) async fn eventually<T>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let mut excuse = String::new();
    let asking = async {
        let mut ticks = interval(ASKING);
        loop {
            ticks.tick().await;
            match ask().await {
                Ok(answer) => return answer,
                Err(reason) => excuse = reason,
            }
        }
    };
    match timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what}: not in time: {excuse}"),
    }
}
