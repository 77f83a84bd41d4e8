//! A test's own namespace, and what a test does in it.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use podloom_api::{Browser, BrowserConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::faults::Proxy;
use crate::operator::Operator;
use crate::wait::{PATIENCE, eventually, eventually_within};
use crate::watched::{Object, Watched};

/// A BrowserConfig whose browser `chrome` has a version for each behaviour that a pod can choose.
const BEHAVIOURS: &str = include_str!("../blackbox/fixtures/behaviours.yaml");

/// A test's own namespace.
pub struct Scene {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// An administrator's client.
    pub client: Client,
    /// The namespace's name.
    pub namespace: String,
}

impl Scene {
    /// Creates the namespace.
    pub async fn new(cluster: Arc<Cluster>, name: &str) -> Self {
        let client = cluster.client().await;
        let scene = Self {
            cluster,
            client,
            namespace: name.to_owned(),
        };
        scene.make_namespace(json!({})).await;
        scene
    }

    /// Creates another namespace on the same cluster, with these labels.
    pub async fn beside(&self, name: &str, labels: Value) -> Self {
        let scene = Self {
            cluster: Arc::clone(&self.cluster),
            client: self.client.clone(),
            namespace: name.to_owned(),
        };
        scene.make_namespace(labels).await;
        scene
    }

    /// The kubeconfig of an account that has these rights and no others, in all namespaces.
    pub fn account(&self, name: &str, rules: &Value) -> PathBuf {
        let namespace = self.namespace.as_str();
        let name = format!("{namespace}-{name}");
        let metadata = json!({ "name": name, "namespace": namespace });
        let rbac = "rbac.authorization.k8s.io";
        let items = json!([
            { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata },
            { "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": name },
              "rules": rules },
            { "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": name },
              "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": name },
              "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }] },
        ]);
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        self.cluster.apply_text(&list.to_string());
        let plane = &self.cluster.plane;
        plane
            .kubeconfig_for_service_account(namespace, &name)
            .unwrap()
    }

    async fn make_namespace(&self, labels: Value) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = json!({ "metadata": { "name": self.namespace, "labels": labels } });
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }

    /// The Browsers.
    pub fn browsers(&self) -> Api<Browser> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The BrowserConfigs.
    pub fn configs(&self) -> Api<BrowserConfig> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The pods.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Watches the Browsers from now on.
    pub async fn watch_browsers(&self) -> Watched<Browser> {
        Watched::new(self.browsers()).await
    }

    /// Watches the pods from now on.
    pub async fn watch_pods(&self) -> Watched<Pod> {
        Watched::new(self.pods()).await
    }

    /// Starts an operator for this namespace alone, without plugins unless the arguments name some.
    pub async fn operator(&self, arguments: &[&str]) -> Operator {
        let operator = self.spawn_operator(arguments);
        operator.ready().await;
        operator
    }

    /// Like [`Scene::operator`], but does not wait until it is ready.
    #[must_use]
    pub fn spawn_operator(&self, arguments: &[&str]) -> Operator {
        let kubeconfig = self.cluster.operator_kubeconfig();
        let arguments = [&["--namespace", &self.namespace], arguments].concat();
        Operator::spawn(&self.cluster, kubeconfig, &arguments)
    }

    /// Like [`Scene::operator`], with a proxy between it and the API server.
    pub async fn operator_behind(&self, proxy: &Proxy, arguments: &[&str]) -> Operator {
        let kubeconfig = proxy.kubeconfig(self.cluster.operator_kubeconfig());
        let arguments = [&["--namespace", &self.namespace], arguments].concat();
        let operator = Operator::spawn(&self.cluster, &kubeconfig, &arguments);
        operator.ready().await;
        operator
    }

    /// A proxy for [`Scene::operator_behind`].
    pub fn proxy(&self) -> Proxy {
        Proxy::start(self.cluster.operator_kubeconfig())
    }

    /// Starts an operator for this namespace that sees only the image's files, with the image's chain.
    pub async fn operator_alone(&self) -> Operator {
        let arguments = [
            "--namespace",
            &self.namespace,
            "--plugins",
            "/usr/share/podloom/plugins",
        ];
        let kubeconfig = self.cluster.operator_kubeconfig();
        let operator = Operator::spawn_alone(&self.cluster, kubeconfig, &arguments);
        operator.ready().await;
        operator
    }

    /// Creates a BrowserConfig whose browser `chrome` has a version for each behaviour of pods.
    pub async fn behaviours(&self) -> BrowserConfig {
        self.create(self.configs(), yaml(BEHAVIOURS)).await
    }

    /// Creates a BrowserConfig with this name and spec.
    pub async fn config(&self, name: &str, spec: &str) -> BrowserConfig {
        let config = json!({ "metadata": { "name": name }, "spec": yaml(spec) });
        self.create(self.configs(), config).await
    }

    /// Creates a Browser: `chrome` in this version.
    pub async fn browser(&self, name: &str, version: &str) -> Browser {
        self.browser_with(name, version, json!({})).await
    }

    /// Creates a Browser with more metadata: `chrome` in this version.
    pub async fn browser_with(&self, name: &str, version: &str, metadata: Value) -> Browser {
        let mut metadata = metadata;
        metadata["name"] = name.into();
        let browser = json!({
            "metadata": metadata,
            "spec": { "browserName": "chrome", "browserVersion": version },
        });
        self.create(self.browsers(), browser).await
    }

    /// Creates an object, and fills in its kind.
    pub async fn create<K>(&self, api: Api<K>, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let mut object = object;
        object["apiVersion"] = K::api_version(&()).into();
        object["kind"] = K::kind(&()).into();
        let typed: K = serde_json::from_value(object.clone()).unwrap();
        match api.create(&PostParams::default(), &typed).await {
            Ok(created) => created,
            Err(error) => panic!("{object}: {error}"),
        }
    }

    /// Changes a Browser by a merge patch.
    pub async fn patch_browser(&self, name: &str, patch: Value) -> Browser {
        let patch = Patch::Merge(patch);
        let browsers = self.browsers();
        browsers
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap()
    }

    /// Deletes an object although it has finalizers.
    pub async fn force_away<K: Object>(&self, objects: &Api<K>, name: &str) {
        drop(
            objects
                .delete(name, &DeleteParams::default())
                .await
                .unwrap(),
        );
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        // Without a finalizer it is gone already.
        drop(objects.patch(name, &PatchParams::default(), &free).await);
    }

    /// Deletes a Browser, and does not wait until it is gone.
    pub async fn delete_browser(&self, name: &str) {
        let browsers = self.browsers();
        browsers
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Deletes all Browsers, and does not wait until they are gone.
    pub async fn delete_all_browsers(&self) {
        let browsers = self.browsers();
        // On a busy API server, deleting a thousand may take longer than the timeout of a request.
        let patience = PATIENCE * 3;
        eventually_within("the Browsers can be deleted", patience, async || {
            let all = DeleteParams::default();
            let deleted = browsers
                .delete_collection(&all, &ListParams::default())
                .await;
            deleted.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    /// Waits until no Browser and no pod is left.
    pub async fn nothing_is_left(&self) {
        eventually("no Browser and no pod is left", async || {
            let all = ListParams::default();
            let browsers = names(&self.browsers().list_metadata(&all).await.unwrap().items);
            let pods = names(&self.pods().list_metadata(&all).await.unwrap().items);
            if browsers.is_empty() && pods.is_empty() {
                return Ok(());
            }
            Err(format!("Browsers {browsers:?}, pods {pods:?}"))
        })
        .await;
    }

    /// Waits until an object has exactly as many Events as expected, in this order, and each starts with the expected text:
    /// `Type Reason: note`.
    pub async fn events_are(&self, name: &str, expected: &[&str]) {
        eventually(
            &format!("the Events about {name} are {expected:#?}"),
            async || {
                let events = self.events(name).await;
                let is_so = events.len() == expected.len()
                    && events
                        .iter()
                        .zip(expected)
                        .all(|(event, start)| event.starts_with(start));
                is_so.then_some(()).ok_or_else(|| format!("{events:#?}"))
            },
        )
        .await;
    }

    /// Waits until there is an Event about an object whose line starts with this: `Warning DriftDetected`.
    pub async fn has_event(&self, name: &str, start: &str) {
        eventually(&format!("there is an Event {start}"), async || {
            let events = self.events(name).await;
            let is_there = events.iter().any(|event| event.starts_with(start));
            is_there.then_some(()).ok_or_else(|| format!("{events:#?}"))
        })
        .await;
    }

    /// The Events about a Browser that have arrived so far.
    pub async fn events(&self, name: &str) -> Vec<String> {
        // The pod has the same name, and its own Events.
        self.events_about(name, |kind| kind != "Pod").await
    }

    /// The Events about a pod that have arrived so far.
    pub async fn events_about_pod(&self, name: &str) -> Vec<String> {
        self.events_about(name, |kind| kind == "Pod").await
    }

    async fn events_about(&self, name: &str, is_kind: impl Fn(&str) -> bool) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut events = api.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| {
            let about = event.regarding.as_ref();
            about.is_some_and(|about| {
                about.name.as_deref() == Some(name)
                    && is_kind(about.kind.as_deref().unwrap_or_default())
            })
        });
        // Events about one object are sent one after the other, so their times have the right order.
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        let line = |event: &Event| {
            format!(
                "{} {}: {}",
                event.type_.as_deref().unwrap_or_default(),
                event.reason.as_deref().unwrap_or_default(),
                event.note.as_deref().unwrap_or_default()
            )
        };
        events.iter().map(line).collect()
    }
}

fn names<K: kube::ResourceExt>(objects: &[K]) -> Vec<String> {
    objects.iter().map(K::name_any).collect()
}

/// A YAML document as JSON.
pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}
