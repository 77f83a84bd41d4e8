//! The Cleaners of one test, and the operators that work on them.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, Resource};
use podloom_api::Cleaner;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::faults::Proxy;
use crate::operator::Operator;
use crate::scene::Scene;
use crate::wait::{PATIENCE, eventually};
use crate::watched::Watched;

/// A test's Cleaners. Their targets are mostly ConfigMaps, since nothing else touches those.
pub struct Cleaners<'s> {
    scene: &'s Scene,
}

impl<'s> Cleaners<'s> {
    /// Those of a test.
    pub fn new(scene: &'s Scene) -> Self {
        Self { scene }
    }

    /// The Cleaners of the test's namespace.
    pub fn api(&self) -> Api<Cleaner> {
        self.namespaced()
    }

    /// The ConfigMaps.
    pub fn maps(&self) -> Api<ConfigMap> {
        self.namespaced()
    }

    /// The pods.
    pub fn pods(&self) -> Api<Pod> {
        self.namespaced()
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), &self.scene.namespace)
    }

    fn client(&self) -> Client {
        self.scene.client.clone()
    }

    /// Starts an operator for this namespace, unless the arguments name others.
    pub async fn operator(&self, arguments: &[&str]) -> Operator {
        let operator = self.spawn(self.kubeconfig(), arguments);
        operator.ready().await;
        operator
    }

    /// Like [`Cleaners::operator`], with a proxy between it and the API server.
    pub async fn operator_behind(&self, proxy: &Proxy, arguments: &[&str]) -> Operator {
        let operator = self.spawn(&proxy.kubeconfig(self.kubeconfig()), arguments);
        operator.ready().await;
        operator
    }

    /// A proxy for [`Cleaners::operator_behind`].
    pub fn proxy(&self) -> Proxy {
        Proxy::start(self.kubeconfig())
    }

    /// The kubeconfig of the account that `deploy/` gives the controller of Cleaners, with the rights of the tests.
    pub fn kubeconfig(&self) -> &Path {
        self.scene.cluster.cleaner_kubeconfig()
    }

    /// Like [`Cleaners::operator`], on a machine that trusts the certificate authorities of a file.
    pub async fn operator_trusting(&self, authorities: &Path, arguments: &[&str]) -> Operator {
        let operator = self.spawn_trusting(self.kubeconfig(), arguments, Some(authorities));
        operator.ready().await;
        operator
    }

    /// Starts an operator, and does not wait until it is ready.
    #[must_use]
    pub fn spawn(&self, kubeconfig: &Path, arguments: &[&str]) -> Operator {
        self.spawn_trusting(kubeconfig, arguments, None)
    }

    fn spawn_trusting(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
        authorities: Option<&Path>,
    ) -> Operator {
        let mut all = vec!["--controllers", "cleaner"];
        if !arguments.contains(&"--namespace") {
            all.extend(["--namespace", &self.scene.namespace]);
        }
        all.extend(arguments);
        Operator::spawn_trusting(&self.scene.cluster, kubeconfig, &all, authorities)
    }

    /// Watches the Cleaners from now on.
    pub async fn watch(&self) -> Watched<Cleaner> {
        Watched::new(self.api()).await
    }

    /// Creates a Cleaner. Without a `ttl` it is old enough at once.
    pub async fn create(&self, name: &str, spec: Value) -> Cleaner {
        let mut with_ttl = json!({ "ttl": "0" });
        json_merge(&mut with_ttl, spec);
        let cleaner = json!({ "metadata": { "name": name }, "spec": with_ttl });
        self.scene.create(self.api(), cleaner).await
    }

    /// Merges a patch into the spec.
    pub async fn edit(&self, name: &str, spec: Value) -> Cleaner {
        self.patch(self.api(), name, json!({ "spec": spec })).await
    }

    /// Annotates a Cleaner.
    pub async fn annotate(&self, name: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(self.api(), name, patch).await;
    }

    /// Creates a ConfigMap with these labels and a `state`.
    pub async fn map(&self, name: &str, labels: Value, state: &str) -> ConfigMap {
        let map =
            json!({ "metadata": { "name": name, "labels": labels }, "data": { "state": state } });
        self.scene.create(self.maps(), map).await
    }

    /// Sets the `state` of a ConfigMap.
    pub async fn set_state(&self, name: &str, state: &str) {
        let patch = json!({ "data": { "state": state } });
        self.patch(self.maps(), name, patch).await;
    }

    /// Annotates a ConfigMap; null removes the annotation.
    pub async fn annotate_map(&self, name: &str, key: &str, value: Value) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(self.maps(), name, patch).await;
    }

    /// Merges a patch into an object.
    pub async fn patch<K>(&self, api: Api<K>, name: &str, patch: Value) -> K
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let patch = Patch::Merge(patch);
        api.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap()
    }

    /// Deletes a Cleaner, as a user does.
    pub async fn delete(&self, name: &str) {
        self.api()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Waits until a Cleaner has a condition, as `reason` or `reason: start of the message`.
    pub async fn until(&self, name: &str, type_: &str, expected: &str) -> Cleaner {
        eventually(&format!("{name} is {type_} {expected}"), async || {
            let cleaner = self.api().get_opt(name).await.unwrap();
            let Some(cleaner) = cleaner else {
                return Err("it is gone".to_owned());
            };
            let found = condition(&cleaner, type_);
            match found.starts_with(expected) {
                true => Ok(cleaner),
                false => Err(found),
            }
        })
        .await
    }

    /// Waits until a Cleaner is Ready for this reason.
    pub async fn until_ready(&self, name: &str, expected: &str) -> Cleaner {
        self.until(name, "Ready", expected).await
    }

    /// Waits until a Cleaner and these ConfigMaps are gone.
    pub async fn until_gone(&self, name: &str, maps: &[&str]) {
        eventually(&format!("{name} is gone"), async || {
            if let Some(cleaner) = self.api().get_opt(name).await.unwrap() {
                return Err(format!("{:?}", cleaner.status));
            }
            for map in maps {
                if self.maps().get_opt(map).await.unwrap().is_some() {
                    return Err(format!("{map} is there"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Whether a ConfigMap exists.
    pub async fn has_map(&self, name: &str) -> bool {
        self.maps().get_opt(name).await.unwrap().is_some()
    }

    /// Waits for a while in which nothing should happen.
    pub async fn for_a_while(&self) {
        tokio::time::sleep(Duration::from_secs(2).min(PATIENCE)).await;
    }
}

/// The reason of a condition and its message, as `reason: message`; empty without the condition.
#[must_use]
pub fn condition(cleaner: &Cleaner, type_: &str) -> String {
    let conditions = cleaner
        .status
        .as_ref()
        .and_then(|it| it.conditions.as_ref());
    let found = conditions.and_then(|all| all.iter().find(|it| it.type_ == type_));
    found.map_or_else(String::new, |it| format!("{}: {}", it.reason, it.message))
}

/// A target that is one ConfigMap, which conditions see and which is deleted.
#[must_use]
pub fn map_target(name: &str, object: &str) -> Value {
    json!({
        "name": name, "includeWhenEvaluating": true, "delete": true,
        "reference": { "apiVersion": "v1", "kind": "configmap", "name": object },
    })
}

/// A target that is all ConfigMaps with a label, which conditions see and which are deleted.
#[must_use]
pub fn map_targets(name: &str, labels: &Value) -> Value {
    json!({
        "name": name, "includeWhenEvaluating": true, "delete": true,
        "reference": { "apiVersion": "v1", "kind": "ConfigMap", "matchLabels": labels },
    })
}

fn json_merge(target: &mut Value, patch: Value) {
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return;
    };
    target.extend(patch);
}
